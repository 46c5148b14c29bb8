#include "viz/model/timeline_drawing.h"

#include <algorithm>
#include <cmath>

namespace zero1::viz {

namespace {

/// A row in disorder is looked at no closer than this.
constexpr std::int64_t most_in_disorder = 4000;

float cut(double x, const TimeView& view) {
  return static_cast<float>(std::clamp(x, 0.0, view.width_px()));
}

TimelineBar bar_of(const Summary& look, EventId event, std::int64_t count, int row, const TimeView& view) {
  return {cut(view.x_of(static_cast<double>(look.begin_ns)), view),
          cut(view.x_of(static_cast<double>(look.end_ns)), view),
          row,
          look,
          event,
          count};
}

void join(TimelineBar& bar, const TimelineBar& other) {
  bar.x0 = std::min(bar.x0, other.x0);
  bar.x1 = std::max(bar.x1, other.x1);
  bar.look.merge(other.look);
  bar.count += other.count;
}

bool same_look(const Summary& a, const Summary& b) {
  return a.looks_like(b) && a.exposed == b.exposed && a.modelled == b.modelled;
}

}  // namespace

std::span<const TimelineBar> TimelineDrawing::draw(const EventIndex& index, const TimelineRows& rows,
                                                   std::size_t first, std::size_t last, const TimeView& view,
                                                   const DrawLimits& limits) {
  // As fine as the last picture had to be, finer where that left room: views change slowly.
  const bool room = bars_.size() < limits.most_bars / 3;
  merge_px_ = std::max(limits.merge_px, room ? merge_px_ / 2 : merge_px_);
  while (!draw_rows(index, rows, first, last, view, limits.most_bars)) {
    // Too many by the row that is drawn when they are too many; each row can do with two bars.
    const double drawn = static_cast<double>(bars_.back().row) + 1 - static_cast<double>(first);
    const double all = static_cast<double>(last - first);
    merge_px_ *= std::clamp(all / drawn, 1.5, 8.0);
    if (merge_px_ > 4 * view.width_px()) {
      bars_.resize(std::min(bars_.size(), limits.most_bars));
      break;
    }
  }
  return bars_;
}

bool TimelineDrawing::draw_rows(const EventIndex& index, const TimelineRows& rows, std::size_t first,
                                std::size_t last, const TimeView& view, std::size_t most_bars) {
  bars_.clear();
  for (std::size_t i = first; i < last; ++i) {
    draw_row(index, *rows.rows[i].row, static_cast<int>(i), view);
    if (bars_.size() > most_bars) return false;
  }
  return true;
}

void TimelineDrawing::draw_row(const EventIndex& index, const EventRow& row, int number,
                               const TimeView& view) {
  small_.clear();
  const double merge_ns = merge_px_ * view.ns_per_px();
  const auto resolution_ns = TimeView::to_ns(std::max(1.0, std::floor(merge_ns)));
  trace::Interval column{0, 0};  // of the last small one
  row.visit(index.store(), view.window(), resolution_ns, most_in_disorder,
            [&](const Summary& look, std::int64_t at, std::int64_t count) {
              const std::uint64_t length_ns =
                  static_cast<std::uint64_t>(look.end_ns) - static_cast<std::uint64_t>(look.begin_ns);
              if (static_cast<double>(length_ns) >= merge_ns) {
                merge_small(number, view);
                bars_.push_back(bar_of(look, row.events().arrived(at), count, number, view));
                return;
              }
              if (!small_.empty() && look.begin_ns >= column.start_ns && look.begin_ns < column.end_ns) {
                small_.back().look.merge(look);
                small_.back().count += count;
                return;
              }
              // Columns are fixed in time, so that bars keep their shape while the view moves.
              const double place = std::floor(static_cast<double>(look.begin_ns) / merge_ns);
              column = {TimeView::to_ns(std::ceil(place * merge_ns)),
                        TimeView::to_ns(std::ceil((place + 1) * merge_ns))};
              small_.push_back({TimeView::to_ns(place), look, row.events().arrived(at), count});
            });
  merge_small(number, view);
}

void TimelineDrawing::merge_small(int row, const TimeView& view) {
  if (small_.empty()) return;
  const auto before = [](const Small& a, const Small& b) { return a.column < b.column; };
  if (!std::is_sorted(small_.begin(), small_.end(), before))
    std::stable_sort(small_.begin(), small_.end(), before);
  const std::size_t start = bars_.size();
  for (auto at = small_.begin(); at != small_.end();) {
    Small merged = *at;
    for (++at; at != small_.end() && at->column == merged.column; ++at) {
      merged.look.merge(at->look);
      merged.count += at->count;
    }
    const TimelineBar bar = bar_of(merged.look, merged.event, merged.count, row, view);
    // Columns that touch and look the same become one bar, too.
    if (bars_.size() > start && bar.x0 - bars_.back().x1 < 1 && same_look(bars_.back().look, bar.look))
      join(bars_.back(), bar);
    else
      bars_.push_back(bar);
  }
  small_.clear();
}

EventId event_at(const EventIndex& index, const EventRow& row, const TimeView& view, double x,
                 double tolerance_px) {
  const trace::Interval window{TimeView::to_ns(view.ns_at(x - tolerance_px)),
                               TimeView::to_ns(view.ns_at(x + tolerance_px))};
  EventId best = -1;
  std::uint64_t best_length = 0;
  double best_distance = 0;
  row.visit(
      index.store(), window, 0, most_in_disorder,
      [&](const Summary& look, std::int64_t at, std::int64_t count) {
        if (count != 1) return;
        const double begin = view.x_of(static_cast<double>(look.begin_ns)),
                     end = view.x_of(static_cast<double>(look.end_ns));
        const double distance = std::max({0.0, begin - x, x - end});
        const auto length =
            static_cast<std::uint64_t>(look.end_ns) - static_cast<std::uint64_t>(look.begin_ns);
        if (best >= 0 && (distance > best_distance || (distance == best_distance && length >= best_length)))
          return;
        best = row.events().arrived(at);
        best_length = length;
        best_distance = distance;
      });
  return best;
}

}  // namespace zero1::viz
