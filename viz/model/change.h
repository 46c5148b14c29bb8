// What a step has changed: the events between two moments, and what they are about.
#pragma once

#include <cstdint>
#include <set>

#include "core/trace/event.h"

namespace zero1::viz {

/// The events that ended after `from_ns` and not after `to_ns` (instants: lie there). Panels mark them, and
/// their buckets and parameters, with Theme::changed. Empty where from_ns == to_ns: nothing is marked.
struct Change {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
  std::set<int> buckets;  ///< global bucket numbers
  std::set<int> params;

  bool empty() const { return to_ns <= from_ns; }
  bool contains(const trace::Event& event) const { return from_ns < event.end_ns && event.end_ns <= to_ns; }
  /// Makes the change reach to the end of `event`, and remembers what it is about.
  void add(const trace::Event& event);
};

}  // namespace zero1::viz
