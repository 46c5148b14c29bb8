#include "viz/model/timeline_rows.h"

#include <algorithm>

namespace zero1::viz {

namespace {

/// What stays of a rank that is folded: what is communicated, and who waits for it.
bool stays_when_folded(const EventRow& row) {
  return row.level() == level_of(trace::Kind::collective_run) ||
         row.level() == level_of(trace::Kind::collective_wait);
}

}  // namespace

TimelineRows::TimelineRows(const EventIndex& index, const RowHeights& heights,
                           const std::set<int>& folded_ranks) {
  float y = 0;
  for (const EventLane* lane : index.lanes()) {
    TimelineLane shown;
    shown.rank = lane->rank();
    shown.stream = lane->stream();
    shown.folded = folded_ranks.contains(lane->rank());
    shown.starts_rank = lanes.empty() || lanes.back().rank != lane->rank();
    shown.first = rows.size();
    if (!lanes.empty()) y += shown.starts_rank ? heights.rank_gap : heights.lane_gap;
    shown.y0 = y;
    for (const EventRow* row : lane->rows()) {
      if (shown.folded && !stays_when_folded(*row)) continue;
      const float row_px = is_thin(row->level()) ? heights.thin : heights.row;
      rows.push_back({lane, row, y, y + row_px - 1});
      y += row_px;
    }
    shown.last = rows.size();
    shown.y1 = y;
    if (shown.last > shown.first || shown.starts_rank) {
      // A folded rank keeps a place for its name.
      if (shown.last == shown.first) shown.y1 = y += heights.row;
      lanes.push_back(shown);
    }
  }
  height = y;
}

std::pair<std::size_t, std::size_t> TimelineRows::between(float y0, float y1) const {
  const auto first =
      std::partition_point(rows.begin(), rows.end(), [&](const TimelineRow& r) { return r.y1 < y0; });
  const auto last = std::partition_point(first, rows.end(), [&](const TimelineRow& r) { return r.y0 < y1; });
  return {static_cast<std::size_t>(first - rows.begin()), static_cast<std::size_t>(last - rows.begin())};
}

int TimelineRows::row_at(float y) const {
  const auto [first, last] = between(y, y + 1e-3F);
  if (first == last || rows[first].y0 > y || rows[first].y1 + 1 <= y) return -1;
  return static_cast<int>(first);
}

int TimelineRows::row_of(const EventIndex& index, EventId id) const {
  const trace::Event event = index.event(id);
  const int level = level_of(event.kind);
  for (const TimelineLane& lane : lanes) {
    if (lane.rank != event.rank || lane.stream != event.stream) continue;
    for (std::size_t i = lane.first; i < lane.last; ++i) {
      if (rows[i].row->level() == level && rows[i].row->events().contains(index.store(), id))
        return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace zero1::viz
