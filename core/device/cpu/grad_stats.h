// The statistics of gradients, in one pass that can do more on its way.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/device/cpu/vec.h"

namespace zero1::cpu {

/// Of the elements seen. The largest magnitude is that of the finite ones.
struct GradStats {
  static constexpr std::int32_t infinity_bits = 0x7F800000;

  std::int32_t max_bits = 0;  ///< of |x|: as integers, magnitudes order like the numbers
  std::int64_t non_finite = 0;

  double largest() const { return static_cast<double>(std::bit_cast<float>(max_bits)); }

  void add(const GradStats& other) {
    max_bits = std::max(max_bits, other.max_bits);
    non_finite += other.non_finite;
  }

  /// To double[2], as Ops::grad_stats gives them.
  void add_to(double* out) const {
    out[0] = std::max(out[0], largest());
    out[1] += static_cast<double>(non_finite);
  }
};

/// Statistics of x[begin, end), where not all is finite.
template <class T>
GradStats stats_of_mixed(const T* x, std::int64_t begin, std::int64_t end) {
  GradStats total;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(static_cast<float>(x[i])) & 0x7FFFFFFF;
    if (bits < GradStats::infinity_bits)
      total.max_bits = std::max(total.max_bits, bits);
    else
      ++total.non_finite;
  }
  return total;
}

/// Statistics of x[begin, end). Calls `also(i, part, value)` with what it has read, so that a pass over
/// memory can serve twice. It must not write to x, which is read again where not all is finite.
template <class T, class Also>
GradStats stats_of(const T* x, std::int64_t begin, std::int64_t end, Also&& also) {
  IntVec largest{};  // signed: not every processor compares unsigned lanes
  for_lanes(begin, end, [&](std::int64_t i, auto part) {
    prefetch(x + i);
    const Vec value = load(x + i, part);
    const IntVec magnitude = std::bit_cast<IntVec>(value) & 0x7FFFFFFF;
    largest = magnitude > largest ? magnitude : largest;
    also(i, part, value);
  });
  GradStats total;
  for (int lane = 0; lane < lanes; ++lane)
    total.max_bits = std::max(total.max_bits, std::int32_t{largest[lane]});
  return total.max_bits < GradStats::infinity_bits ? total : stats_of_mixed(x, begin, end);
}

}  // namespace zero1::cpu
