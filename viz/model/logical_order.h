// A run in the order of causes instead of time: each event one unit wide, as early as its causes allow.
//
// What causes what:
// - one rank's compute and host events follow one another as they were recorded, and so do those of its
//   communication stream;
// - a collective runs after its issue, and is waited for after it ran (core/trace/flows.h);
// - a collective's runs on all ranks are one: none begins before all of them can.
// Spans around other events of their rank (a step, a layer's backward) reach from the first to the last of
// them.
#pragma once

#include <memory>
#include <vector>

#include "viz/model/event_index.h"

namespace zero1::viz {

struct LogicalOrder {
  static constexpr std::int64_t unit_ns = 1000;  ///< of the events below

  /// The same events on the same lanes; event number n begins at place · unit_ns.
  std::shared_ptr<EventIndex> events;
  std::vector<EventId> originals;  ///< by number in `events`
  trace::Interval when;            ///< what was put in order, in the run's time
  bool complete = true;            ///< false: `when` is less than was asked for

  /// The number in `events`, or -1.
  EventId number_of(EventId original) const;

  std::vector<std::pair<EventId, EventId>> numbers;  ///< (original, number), sorted
};

/// Orders what was recorded in `window`, from its start until `most_events`.
LogicalOrder logical_order(const EventIndex& events, trace::Interval window,
                           std::int64_t most_events = 100'000);

}  // namespace zero1::viz
