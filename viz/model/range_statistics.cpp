#include "viz/model/range_statistics.h"

#include <algorithm>

#include "core/base/clock.h"

namespace zero1::viz {

namespace {

/// A range's length fits 64 bits; 126 years to each side.
constexpr std::int64_t longest_ns = 4'000'000'000'000'000'000;

}  // namespace

RangeStatistics::RangeStatistics(const EventIndex& events, trace::Interval range)
    : events_(events),
      range_{std::clamp(range.start_ns, -longest_ns, longest_ns),
             std::clamp(range.end_ns, -longest_ns, longest_ns)} {
  for (const EventLane* lane : events.lanes()) {
    for (const EventRow* row : lane->rows()) rows_.push_back(row);
  }
}

bool RangeStatistics::advance(double budget_ms) {
  const std::int64_t start_ns = now_ns();
  std::int64_t looked_at = 0;
  const auto tired = [&] {
    return budget_ms > 0 && ++looked_at % 256 == 0 &&
           static_cast<double>(now_ns() - start_ns) > budget_ms * 1e6;
  };
  while (next_row_ < rows_.size()) {
    const EventRow& row = *rows_[next_row_];
    const TimeList& list = row.events();
    list.sort(events_.store());
    // What ends at the range's very start is outside, unless it is an instant there.
    if (next_event_ < 0) next_event_ = list.after(events_.store(), range_.start_ns - 1, INT64_MAX);
    for (; next_event_ < list.size(); ++next_event_) {
      if (tired()) return false;
      const EventId id = list.at(next_event_);
      const std::int64_t begin_ns = events_.store().begin_ns(id);
      if (begin_ns >= range_.end_ns) {
        if (row.disjoint()) break;  // all that follow begin later still
        continue;
      }
      if (begin_ns < range_.start_ns && events_.store().end_ns(id) <= range_.start_ns) continue;
      count(events_.event(id));
    }
    ++next_row_;
    next_event_ = -1;
  }
  finish();
  return true;
}

double RangeStatistics::progress() const {
  return rows_.empty() ? 1.0 : static_cast<double>(next_row_) / static_cast<double>(rows_.size());
}

void RangeStatistics::count(const trace::Event& event) {
  trace::Event inside = event;
  inside.begin_ns = std::max(event.begin_ns, range_.start_ns);
  inside.end_ns = std::max(inside.begin_ns, std::min(event.end_ns, range_.end_ns));
  KindFigures& figures = kinds_[{event.kind, is_collective(event.kind) ? event.detail : std::uint8_t{0}}];
  const std::int64_t length_ns = inside.end_ns - inside.begin_ns;
  ++figures.count;
  figures.sum_ns = figures.sum_ns > INT64_MAX - length_ns ? INT64_MAX : figures.sum_ns + length_ns;
  inside.bytes = 0;  // not asked for, and a hostile sum of them overflows
  timelines_[event.rank].add(inside);
}

void RangeStatistics::finish() {
  for (const auto& [rank, timeline] : timelines_)
    ranks_[rank] = trace::measure(timeline.runs, timeline.waits, timeline.computes());
  timelines_.clear();
}

}  // namespace zero1::viz
