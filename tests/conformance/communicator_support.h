// What the communicator suite needs of a backend, and buffers that notice every wrong write.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/range.h"
#include "core/comm/communicator.h"
#include "core/device/device.h"

namespace zero1::test {

/// One rank in a test. `leave` destroys its communicator early.
struct RankContext {
  std::unique_ptr<Communicator>& communicator;
  Device& device;
  Stream& stream;

  Communicator& comm() { return *communicator; }
  int rank() { return comm().rank(); }
  int size() { return comm().size(); }
  void leave() { communicator.reset(); }
};

/// A backend instantiates the suite by deriving from this; see communicator_local_test.cpp.
class CommunicatorBackend {
 public:
  virtual ~CommunicatorBackend() = default;

  /// The group sizes it can form here.
  virtual std::vector<int> sizes() const { return {1, 2, 3, 4, 5, 7, 8}; }

  /// Sums in rank order: bits equal the reference's. Else close to it is enough.
  virtual bool exact() const { return true; }

  /// Runs `body` on all ranks of a new group called "test-group". A rank that throws aborts the group;
  /// the first failure that is not a PeerError comes out, else the first PeerError.
  virtual void run(int size, const std::function<void(RankContext&)>& body) = 0;
};

/// Thrown by a rank whose result is wrong.
class WrongResult : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void expect(bool ok, const std::string& what) {
  if (!ok) throw WrongResult(what);
}

template <class T>
double number(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}

template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return T(static_cast<float>(value));
}

/// Equal bits, or both NaN. Without `exact`: within a few units of the last place.
template <class T>
bool same(T actual, T expected, bool exact) {
  const double a = number(actual);
  const double b = number(expected);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::memcmp(&actual, &expected, sizeof(T)) == 0) return true;
  const double ulp = sizeof(T) == 2 ? 0x1p-7 : 0x1p-20;
  return !exact && std::abs(a - b) <= 4 * ulp * std::max(1.0, std::abs(b));
}

template <class T>
void expect_same(const std::vector<T>& actual, const std::vector<T>& expected, bool exact,
                 std::string_view what) {
  expect(actual.size() == expected.size(), fmt::format("{}: wrong size", what));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (same(actual[i], expected[i], exact)) continue;
    throw WrongResult(fmt::format("{}: element {} of {} is {}, expected {}", what, i, actual.size(),
                                  number(actual[i]), number(expected[i])));
  }
}

/// Any rank can make any rank's values. They do not add up exactly, so that the order of a sum shows.
/// One in 16 is special: infinities, NaN, negative zero, subnormals, the largest numbers.
template <class T>
std::vector<T> make_values(std::uint64_t seed, int rank, std::int64_t numel) {
  std::uint64_t state = seed * 1000003 + static_cast<std::uint64_t>(rank);
  const auto random = [&state] {  // splitmix64: starts at no cost, unlike the standard library's
    std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  };
  constexpr double specials[] = {std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN(),
                                 -0.0,
                                 0x1p-24,
                                 -0x1.8p-130,
                                 65504,
                                 3e38};
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(numel));
  for (std::int64_t i = 0; i < numel; ++i) {
    const std::uint64_t bits = random();
    const double plain = static_cast<double>(bits >> 11) * 0x1p-53 * 2 - 1;
    const bool special = bits % 16 == 0;
    values.push_back(
        element<T>(special ? specials[(bits >> 4) % 8] : plain * static_cast<double>(1U << (bits % 7))));
  }
  return values;
}

template <class T>
std::vector<T> all_nan(std::int64_t numel) {
  return std::vector<T>(static_cast<std::size_t>(numel),
                        element<T>(std::numeric_limits<double>::quiet_NaN()));
}

/// Elements in device memory between sentinels.
template <class T>
class Guarded {
 public:
  Guarded(RankContext& context, const std::vector<T>& initial)
      : context_(context),
        numel_(static_cast<std::int64_t>(initial.size())),
        memory_(context.device.allocate((numel_ + 2 * guard) * static_cast<std::int64_t>(sizeof(T)),
                                        MemoryKind::other)) {
    std::vector<T> host(static_cast<std::size_t>(numel_ + 2 * guard));
    std::memset(static_cast<void*>(host.data()), sentinel, host.size() * sizeof(T));
    std::copy(initial.begin(), initial.end(), host.begin() + guard);
    context.device.copy_from_host(context.stream, memory_.view(dtype_of<T>()), host.data());
    context.stream.synchronize();
  }

  TensorView view() { return memory_.view(dtype_of<T>(), guard, numel_); }
  TensorView piece(int index, std::int64_t numel) {
    return view().slice({index * numel, (index + 1) * numel});
  }

  /// Waits for the stream, checks the sentinels, and brings the elements home.
  std::vector<T> read(std::string_view what) {
    std::vector<T> host(static_cast<std::size_t>(numel_ + 2 * guard));
    context_.device.copy_to_host(context_.stream, host.data(), memory_.view(dtype_of<T>()));
    context_.stream.synchronize();
    const auto* bytes = reinterpret_cast<const unsigned char*>(host.data());
    const std::int64_t guard_bytes = guard * static_cast<std::int64_t>(sizeof(T));
    const auto* after = bytes + guard_bytes + numel_ * static_cast<std::int64_t>(sizeof(T));
    const auto untouched = [](unsigned char byte) { return byte == sentinel; };
    expect(std::all_of(bytes, bytes + guard_bytes, untouched) &&
               std::all_of(after, after + guard_bytes, untouched),
           fmt::format("{}: wrote beside its buffer", what));
    return {host.begin() + guard, host.begin() + guard + numel_};
  }

 private:
  static constexpr std::int64_t guard = 9;  // odd, so that the elements are not aligned to vectors
  static constexpr unsigned char sentinel = 0xA5;

  RankContext& context_;
  std::int64_t numel_;
  DeviceMemory memory_;
};

/// The serial reference of the elements in `range`: rank order, fp32 (fp64 for fp64), one rounding.
template <class T>
std::vector<T> reduce_reference(ReduceOp op, const std::vector<std::vector<T>>& inputs, Range range) {
  using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<T> result;
  for (auto i = static_cast<std::size_t>(range.start); i < static_cast<std::size_t>(range.end); ++i) {
    A sum = static_cast<A>(inputs[0][i]);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      const A value = static_cast<A>(inputs[rank][i]);
      if (op != ReduceOp::max)
        sum = sum + value;
      else if (std::isnan(value) || (!std::isnan(sum) && value > sum))
        sum = value;
    }
    if (op == ReduceOp::average) sum = sum / static_cast<A>(inputs.size());
    result.push_back(static_cast<T>(sum));
  }
  return result;
}

}  // namespace zero1::test
