// Which events of a trace cause which: the arrows of the timeline.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/trace/event.h"

namespace zero1::trace {

enum class FlowPhase : std::uint8_t { start, step, end };

/// One point of an arrow. Points with the same id make one arrow: a start, perhaps a step, an end.
struct FlowPoint {
  std::int64_t event = 0;  ///< index of the event that the point is in
  std::int64_t at_ns = 0;  ///< begin_ns ≤ at_ns ≤ end_ns of that event
  std::uint32_t id = 0;
  FlowPhase phase = FlowPhase::start;
  bool readiness = false;  ///< a gradient's way to its collective, else a collective's way
};

/// The arrows of `events`, which are sorted by begin_ns; the points come sorted by event.
/// - gradient ready → the reduction of its bucket: for each parameter the last report before the reduction;
/// - a collective's issue → run → wait. Where one of the three was not recorded, the other two are joined.
std::vector<FlowPoint> find_flows(std::span<const Event> events);

}  // namespace zero1::trace
