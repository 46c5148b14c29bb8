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

/// The window and all of each step that it touches: where the arrows that cross it begin and end.
trace::Interval with_whole_steps(const EventIndex& events, trace::Interval window);

/// The arrows among the events recorded in `window`; core/trace/flows.h says what they are. `rank` and
/// `bucket` narrow them down. Nothing where that would be more than `most_events` to look at.
std::optional<std::vector<FlowArrow>> find_arrows(const EventIndex& events, trace::Interval window,
                                                  std::optional<int> rank, std::optional<int> bucket,
                                                  std::int64_t most_events = 6000);

}  // namespace zero1::viz
