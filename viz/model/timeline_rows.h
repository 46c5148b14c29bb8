// The rows of a timeline from top to bottom: ranks, their streams, and the rows of each.
#pragma once

#include <set>
#include <vector>

#include "viz/model/event_index.h"
#include "viz/model/event_lanes.h"

namespace zero1::viz {

/// Heights in pixels.
struct RowHeights {
  float row = 18;
  float thin = 7;
  float lane_gap = 3;
  float rank_gap = 10;
};

/// One row on the screen.
struct TimelineRow {
  const EventLane* lane = nullptr;
  const EventRow* row = nullptr;
  float y0 = 0, y1 = 0;  ///< from the top of all rows
};

/// One lane on the screen: rows [first, last) of the list.
struct TimelineLane {
  int rank = 0;
  trace::StreamId stream = trace::StreamId::compute;
  float y0 = 0, y1 = 0;
  std::size_t first = 0, last = 0;
  bool folded = false;  ///< its rank shows the communication stream and waits only
  bool starts_rank = false;
};

/// Where everything lies. Cheap: made anew whenever lanes may have changed.
struct TimelineRows {
  std::vector<TimelineRow> rows;
  std::vector<TimelineLane> lanes;
  float height = 0;

  TimelineRows() = default;
  TimelineRows(const EventIndex& index, const RowHeights& heights, const std::set<int>& folded_ranks);

  /// The rows that [y0, y1) touches, as a range of indices.
  std::pair<std::size_t, std::size_t> between(float y0, float y1) const;
  /// The row at y, or -1.
  int row_at(float y) const;
  /// The row that an event lies in, or -1 where it is folded away.
  int row_of(const EventIndex& index, EventId id) const;
};

}  // namespace zero1::viz
