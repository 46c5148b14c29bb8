// The arrows of a timeline: gradient ready → reduction, and issue → run → wait of each collective.
#pragma once

#include <optional>
#include <vector>

#include "viz/model/event_index.h"

namespace zero1::viz {

struct FlowArrow {
  EventId from = -1, to = -1;
  std::int64_t from_ns = 0, to_ns = 0;  ///< inside the two events
  bool readiness = false;               ///< from a gradient that became ready
};

/// The arrows among the events of `window` and of the steps that it touches; core/trace/flows.h says what
/// they are. `rank` and `bucket` narrow them down. Nothing where that would be more than `most_events` to
/// look at.
std::optional<std::vector<FlowArrow>> find_arrows(const EventIndex& events, trace::Interval window,
                                                  std::optional<int> rank, std::optional<int> bucket,
                                                  std::int64_t most_events = 20'000);

}  // namespace zero1::viz
