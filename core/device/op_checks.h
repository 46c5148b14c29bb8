// Argument checks that every device's operations share: they throw std::invalid_argument at the call.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/device/tensor_view.h"

namespace zero1::op_checks {

[[noreturn]] inline void reject(std::string_view op, const std::string& why) {
  throw std::invalid_argument(std::string(op) + ": " + why);
}

/// The view holds `numel` elements.
template <class View>
void check_numel(std::string_view op, std::string_view argument, const View& view, std::int64_t numel) {
  if (view.numel != numel) {
    reject(op, std::string(argument) + " has " + std::to_string(view.numel) + " elements, expected " +
                   std::to_string(numel));
  }
}

template <class View>
void check_dtype(std::string_view op, std::string_view argument, const View& view, DType expected) {
  if (view.dtype != expected) {
    reject(op, std::string(argument) + " is " + std::string(name(view.dtype)) + ", expected " +
                   std::string(name(expected)));
  }
}

template <class View>
void check(std::string_view op, std::string_view argument, const View& view, DType expected,
           std::int64_t numel) {
  check_dtype(op, argument, view, expected);
  check_numel(op, argument, view, numel);
}

/// Calls fn with a value of the C++ type of fp32, bf16 or fp16, and rejects any other dtype.
template <class Fn>
decltype(auto) visit_low(std::string_view op, std::string_view argument, DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::fp32: return fn(float{});
    case DType::bf16: return fn(BFloat16{});
    case DType::fp16: return fn(Float16{});
    case DType::fp64: break;
  }
  reject(op, std::string(argument) + " is " + std::string(name(dtype)) + ", expected fp32, bf16 or fp16");
}

/// The type of a gradient: fp32, or the activations' own dtype `Low`.
template <class Low, class Fn>
decltype(auto) visit_grad(std::string_view op, std::string_view argument, DType dtype, Fn&& fn) {
  if (dtype == DType::fp32) return fn(float{});
  if (dtype == dtype_of<Low>()) return fn(Low{});
  reject(op, std::string(argument) + " is " + std::string(name(dtype)) + ", expected float32 or " +
                 std::string(name(dtype_of<Low>())));
}

}  // namespace zero1::op_checks
