// What a timeline draws: a bounded list of bars for a window of time over events of any number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "viz/model/event_index.h"
#include "viz/model/timeline_rows.h"
#include "viz/model/timeline_view.h"

namespace zero1::viz {

/// One bar: an event, or some neighbours merged.
struct TimelineBar {
  float x0 = 0, x1 = 0;  ///< pixels of the view, cut to it; x1 - x0 may be 0
  int row = 0;           ///< index into TimelineRows::rows
  Summary look;          ///< the event's, or what prevails among them; times are the hull of all
  EventId event = -1;    ///< the only one, or the first
  std::int64_t count = 1;
};

struct DrawLimits {
  double merge_px = 3;  ///< what is shorter is merged with its neighbours
  std::size_t most_bars = 7000;
};

/// Remembers how coarse the last picture had to be, and keeps its memory.
class TimelineDrawing {
 public:
  /// The bars of rows [first, last), in order of rows and, within a row without overlaps, of time. Each event
  /// of these rows that lies in the view is covered by a bar of its row to within `merge_px()`, and each bar
  /// over exposed communication says so. Where `most_bars` do not suffice, merge_px() is larger than asked
  /// for.
  std::span<const TimelineBar> draw(const EventIndex& index, const TimelineRows& rows, std::size_t first,
                                    std::size_t last, const TimeView& view, const DrawLimits& limits = {});

  double merge_px() const { return merge_px_; }

 private:
  struct Small {
    std::int64_t column;
    Summary look;
    EventId event;
    std::int64_t count;
  };
  bool draw_rows(const EventIndex& index, const TimelineRows& rows, std::size_t first, std::size_t last,
                 const TimeView& view, std::size_t most_bars);
  void draw_row(const EventIndex& index, const EventRow& row, int number, const TimeView& view);
  void merge_small(int row, const TimeView& view);

  std::vector<TimelineBar> bars_;
  std::vector<Small> small_;
  double merge_px_ = 3;
};

/// The event under pixel `x` of a row, the shortest where several lie within `tolerance_px`; -1: none.
EventId event_at(const EventIndex& index, const EventRow& row, const TimeView& view, double x,
                 double tolerance_px = 2);

}  // namespace zero1::viz
