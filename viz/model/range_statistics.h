// What happened in a range of time: how much of each kind, and per rank what was overlapped and exposed.
#pragma once

#include <map>
#include <vector>

#include "core/trace/overlap.h"
#include "viz/model/event_index.h"
#include "viz/model/event_lanes.h"

namespace zero1::viz {

/// Counts a part at a time, so that a range of ten million events holds up no frame.
class RangeStatistics {
 public:
  struct KindFigures {
    std::int64_t count = 0;   ///< events that touch the range
    std::int64_t sum_ns = 0;  ///< their time inside it
    double mean_ns() const {
      return count == 0 ? 0 : static_cast<double>(sum_ns) / static_cast<double>(count);
    }
  };
  /// Kind, and which collective for those.
  using What = std::pair<trace::Kind, std::uint8_t>;

  /// `events` outlives it. What arrives while it counts may or may not be counted.
  RangeStatistics(const EventIndex& events, trace::Interval range);

  /// Goes on for about `budget_ms`; 0: to the end. Returns whether all is counted.
  bool advance(double budget_ms);
  bool complete() const { return next_row_ == rows_.size(); }
  double progress() const;

  trace::Interval range() const { return range_; }
  const std::map<What, KindFigures>& kinds() const { return kinds_; }
  /// By rank; once complete. Spans are cut to the range; the figures are those of core/trace/overlap.h.
  const std::map<int, trace::CommFigures>& ranks() const { return ranks_; }

 private:
  void count(const trace::Event& event);
  void finish();

  const EventIndex& events_;
  trace::Interval range_;
  std::vector<const EventRow*> rows_;
  std::size_t next_row_ = 0;
  std::int64_t next_event_ = -1;  ///< within the row; -1: at its start
  std::map<What, KindFigures> kinds_;
  std::map<int, trace::RankTimeline> timelines_;
  std::map<int, trace::CommFigures> ranks_;
};

}  // namespace zero1::viz
