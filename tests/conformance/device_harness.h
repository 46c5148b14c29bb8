// What the device suite runs on: backends, tensors with sentinels around them, and comparisons.
//
// A backend's test program includes device_suite.h and defines `backends()`; device_cpu_test.cpp is the
// example. The suite reaches device memory by copies alone, so that it runs on any device.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace zero1::test {

struct Backend {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;
};

/// The devices under test. Defined by the program that instantiates the suite.
std::vector<Backend> backends();

/// A device with its compute stream.
struct Rig {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> compute;
  Ops& ops;
  Stream& stream;

  explicit Rig(const Backend& backend)
      : device(backend.make()),
        compute(device->create_stream(StreamKind::compute)),
        ops(device->ops()),
        stream(*compute) {}
};

/// Calls test(rig) on a fresh device of every backend.
template <class Test>
void on_each_backend(Test&& test) {
  for (const Backend& backend : backends()) {
    INFO("backend: ", backend.name);
    Rig rig(backend);
    test(rig);
  }
}

inline constexpr DType low_dtypes[] = {DType::fp32, DType::bf16, DType::fp16};
inline const std::int64_t odd_sizes[] = {1, 3, 5, 7, 16, 17, 64, 100, 1000};

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Half a unit in the last place of 1: the relative error of rounding to `dtype`.
inline double unit(DType dtype) {
  switch (dtype) {
    case DType::fp32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::fp16: return 0x1p-11;
    case DType::fp64: return 0x1p-53;
  }
  return 0;
}

/// `value` as an element of `dtype` holds it.
inline double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::fp32: return static_cast<float>(value);
    case DType::bf16: return static_cast<float>(BFloat16(static_cast<float>(value)));
    case DType::fp16: return static_cast<float>(Float16(static_cast<float>(value)));
    case DType::fp64: break;
  }
  return value;
}

inline std::vector<double> rounded(DType dtype, std::vector<double> values) {
  for (double& v : values) v = rounded(dtype, v);
  return values;
}

/// A tensor in device memory, at an odd offset, with sentinels on both sides that every read checks.
class Tensor {
 public:
  Tensor(Rig& rig, DType dtype, const std::vector<double>& values)
      : rig_(&rig),
        dtype_(dtype),
        numel_(static_cast<std::int64_t>(values.size())),
        memory_(rig.device->allocate((numel_ + before + after) * size_bytes(dtype), MemoryKind::other)) {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(memory_.bytes()), sentinel);
    for (std::size_t i = 0; i < values.size(); ++i) encode(bytes, i, values[i]);
    rig.device->copy_from_host(rig.stream, memory_.view(dtype), bytes.data());
    rig.stream.synchronize();
  }

  /// An output that is only written: whoever reads it gets NaN.
  Tensor(Rig& rig, DType dtype, std::int64_t numel)
      : Tensor(rig, dtype, std::vector<double>(static_cast<std::size_t>(numel), nan)) {}

  TensorView view() const { return memory_.view(dtype_, before, numel_); }
  operator TensorView() const { return view(); }       // NOLINT: arguments read best this way
  operator ConstTensorView() const { return view(); }  // NOLINT
  DType dtype() const { return dtype_; }

  std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> all(static_cast<std::size_t>(memory_.bytes()));
    rig_->device->copy_to_host(rig_->stream, all.data(), memory_.view(dtype_));
    rig_->stream.synchronize();
    const auto head = static_cast<std::size_t>(before * size_bytes(dtype_));
    const auto tail = all.size() - static_cast<std::size_t>(after * size_bytes(dtype_));
    bool intact = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i < head || i >= tail) intact = intact && all[i] == sentinel;
    }
    CHECK_MESSAGE(intact, "memory next to the tensor was written");
    return {all.begin() + static_cast<std::ptrdiff_t>(head), all.begin() + static_cast<std::ptrdiff_t>(tail)};
  }

  std::vector<double> read() const {
    const auto raw = bytes();
    return visit_dtype(dtype_, [&](auto type) {
      using T = decltype(type);
      std::vector<T> typed(static_cast<std::size_t>(numel_));
      if (numel_ > 0) std::memcpy(static_cast<void*>(typed.data()), raw.data(), raw.size());
      std::vector<double> values;
      for (const T& x : typed) {
        if constexpr (std::is_same_v<T, double>)
          values.push_back(x);
        else
          values.push_back(static_cast<double>(static_cast<float>(x)));
      }
      return values;
    });
  }

 private:
  static constexpr std::int64_t before = 7, after = 9;
  static constexpr unsigned char sentinel = 0xA5;

  void encode(std::vector<unsigned char>& bytes, std::size_t i, double value) const {
    visit_dtype(dtype_, [&](auto type) {
      using T = decltype(type);
      T element{};
      if constexpr (std::is_same_v<T, double>)
        element = value;
      else
        element = static_cast<T>(static_cast<float>(value));
      std::memcpy(bytes.data() + (before + static_cast<std::int64_t>(i)) * size_bytes(dtype_), &element,
                  sizeof element);
    });
  }

  Rig* rig_;
  DType dtype_;
  std::int64_t numel_;
  DeviceMemory memory_;
};

/// int32 values (tokens) in device memory.
class Int32s {
 public:
  Int32s(Rig& rig, const std::vector<std::int32_t>& values)
      : memory_(rig.device->allocate(static_cast<std::int64_t>(values.size()) * 4, MemoryKind::other)) {
    // Copies are typed by width here: fp32 has that of int32.
    rig.device->copy_from_host(rig.stream, memory_.view(DType::fp32), values.data());
    rig.stream.synchronize();
  }
  const std::int32_t* data() const { return static_cast<const std::int32_t*>(memory_.data()); }

 private:
  DeviceMemory memory_;
};

/// Normally distributed values that `dtype` holds exactly.
inline std::vector<double> random_values(DType dtype, std::int64_t numel, unsigned seed, double scale = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> values;
  for (std::int64_t i = 0; i < numel; ++i) values.push_back(rounded(dtype, normal(engine)));
  return values;
}

inline std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocab, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(vocab)));
  }
  return tokens;
}

/// |actual - expected| <= absolute + relative * |expected| everywhere; the worst place is shown.
inline void check_close(std::span<const double> actual, std::span<const double> expected, double absolute,
                        double relative) {
  REQUIRE(actual.size() == expected.size());
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    const double allowed = absolute + relative * std::abs(expected[i]);
    const double excess = std::isnan(error) ? infinity : error / allowed;
    if (error != 0 && excess > worst) {
      worst = excess;
      where = i;
    }
  }
  if (worst > 1) {
    FAIL_CHECK("element ", where, " of ", actual.size(), " is ", actual[where], ", expected ",
               expected[where], ": error is ", worst, " times the tolerance");
  }
  CHECK(worst <= 1);
}

/// Equal values; NaN equals NaN.
inline void check_equal(std::span<const double> actual, std::span<const double> expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    FAIL_CHECK("element ", i, " of ", actual.size(), " is ", actual[i], ", expected ", expected[i]);
    return;
  }
}

}  // namespace zero1::test
