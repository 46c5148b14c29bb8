// Sets of points in time as sorted lists of disjoint half-open intervals.
#pragma once

#include <cstdint>
#include <vector>

namespace zero1::trace {

struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;

  friend constexpr bool operator==(const Interval&, const Interval&) = default;
};

/// Sorted by start, not empty, neither overlapping nor touching; what `merged` gives. The other functions
/// take nothing else.
using IntervalSet = std::vector<Interval>;

/// The union of any intervals.
IntervalSet merged(std::vector<Interval> intervals);

std::int64_t length_ns(const IntervalSet& set);

/// The part of `from` outside `without`.
IntervalSet subtract(const IntervalSet& from, const IntervalSet& without);

/// The length of the intersection. Looks only at the part of `large` that `small` spans.
std::int64_t common_ns(const IntervalSet& small, const IntervalSet& large);

}  // namespace zero1::trace
