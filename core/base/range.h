// Half-open ranges of elements. Megatron: `Range` in megatron/core/optimizer/distrib_optimizer.py.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zero1 {

/// [start, end), counted in elements. Which coordinate system the numbers live in (world, bucket,
/// local, param) is told by the name of the variable that holds the range.
struct Range {
  std::int64_t start = 0;
  std::int64_t end = 0;

  constexpr std::int64_t size() const { return end - start; }
  constexpr bool empty() const { return end <= start; }
  constexpr bool contains(std::int64_t index) const { return start <= index && index < end; }

  /// The same length, moved by `offset`.
  constexpr Range shifted(std::int64_t offset) const { return {start + offset, end + offset}; }

  /// The same length, starting at `new_start`. Megatron: `Range.normalize`.
  constexpr Range normalized(std::int64_t new_start = 0) const { return {new_start, new_start + size()}; }

  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// The overlap of two ranges; empty (start == end) where there is none.
constexpr Range intersect(const Range& a, const Range& b) {
  const std::int64_t start = std::max(a.start, b.start);
  return {start, std::max(start, std::min(a.end, b.end))};
}

}  // namespace zero1
