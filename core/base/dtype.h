// Element types of parameters, gradients and optimizer states, and their conversions.
//
// bf16 and fp16 are storage types: every computation widens them to fp32 first. Narrowing rounds to
// nearest even; infinities stay infinities and a NaN stays a NaN. fp64 carries scalars (losses, norms).
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace zero1 {

enum class DType : std::uint8_t { fp32, bf16, fp16, fp64 };

constexpr std::int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::fp32: return 4;
    case DType::bf16: return 2;
    case DType::fp16: return 2;
    case DType::fp64: return 8;
  }
  return 0;
}

/// The name in files and messages: "float32", "bfloat16", "float16", "float64".
std::string_view name(DType dtype);

/// The inverse of `name`; also takes the short forms fp32, bf16, fp16, fp64.
std::optional<DType> parse_dtype(std::string_view text);

struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t quiet_nan = (u >> 16) | 0x0040u;
    bits = static_cast<std::uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) {
    // Scaling by exact powers of two lets the fp32 adder do the rounding, subnormals included.
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7FFFFFFFu;
    std::uint32_t half = 0;
    if (magnitude > 0x7F800000u) {
      half = 0x7E00u | ((magnitude >> 13) & 0x03FFu);
    } else if (magnitude >= 0x477FF000u) {  // 65520 and above rounds to infinity
      half = 0x7C00u;
    } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, one unit is 2^-24
      const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
      half = std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u;
    } else {
      half = (magnitude - 0x38000000u + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t exponent = (bits >> 10) & 0x1Fu;
    const std::uint32_t mantissa = bits & 0x03FFu;
    if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
    if (exponent == 0) {
      const float value = static_cast<float>(mantissa) * 0x1p-24F;
      return sign != 0 ? -value : value;
    }
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
};

/// Calls `fn` with a value of the C++ type that stores `dtype`: visit_dtype(d, [](auto t) { using T =
/// decltype(t); … }).
template <class Fn>
decltype(auto) visit_dtype(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::bf16: return fn(BFloat16{});
    case DType::fp16: return fn(Float16{});
    case DType::fp64: return fn(double{});
    case DType::fp32: break;
  }
  return fn(float{});
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<std::remove_cv_t<T>, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<std::remove_cv_t<T>, Float16>)
    return DType::fp16;
  else if constexpr (std::is_same_v<std::remove_cv_t<T>, double>)
    return DType::fp64;
  else {
    static_assert(std::is_same_v<std::remove_cv_t<T>, float>, "not an element type");
    return DType::fp32;
  }
}

}  // namespace zero1
