// What is drawn against a drawing of every event.
#include "viz/model/timeline_drawing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/gui/timeline_random_trace.h"

namespace zero1::viz {

using trace::Event;
using trace::Kind;

namespace {

struct Scene {
  EventIndex index;
  TimelineRows rows;
  TimeView view;
  TimelineDrawing drawing;

  Scene(const std::vector<Event>& events, int ranks) : index(ranks) {
    index.push(events);
    index.absorb();
    rows = TimelineRows(index, {}, {});
    view.set_width(1000);
    view.fit(index.range());
  }

  /// Draws and compares with every event; returns the number of bars.
  std::size_t check(const DrawLimits& limits = {}) {
    const auto bars = drawing.draw(index, rows, 0, rows.rows.size(), view, limits);
    CHECK(bars.size() <= limits.most_bars);
    std::map<int, std::vector<TimelineBar>> by_row;
    for (const TimelineBar& bar : bars) {
      CHECK(bar.x0 <= bar.x1);
      CHECK(bar.x0 >= 0);
      CHECK(bar.x1 <= view.width_px());
      by_row[bar.row].push_back(bar);
    }
    for (int row = 0; row < static_cast<int>(rows.rows.size()); ++row) check_row(row, by_row[row]);
    return bars.size();
  }

  void check_row(int number, const std::vector<TimelineBar>& bars) {
    const EventRow& row = *rows.rows[static_cast<std::size_t>(number)].row;
    const double tolerance = drawing.merge_px();
    std::vector<Event> visible;
    for (std::int64_t i = 0; i < row.events().size(); ++i) {
      const Event event = index.event(row.events().arrived(i));
      const double x0 = view.x_of(static_cast<double>(event.begin_ns)),
                   x1 = view.x_of(static_cast<double>(event.end_ns));
      if (x1 < 0 || x0 > view.width_px()) continue;
      visible.push_back(event);
      // Covered, and where it is exposed communication, the bar says so.
      const bool exposed = event.kind == Kind::collective_wait && event.stream == trace::StreamId::compute;
      const double from = std::clamp(x0, 0.0, view.width_px()), to = std::clamp(x1, 0.0, view.width_px());
      bool covered = false;
      for (const TimelineBar& bar : bars) {
        if (bar.x0 > from + 0.01 || bar.x1 < to - 0.01) continue;
        covered = covered || !exposed || bar.look.exposed;
        if (to - from > tolerance && row.disjoint()) CHECK(bar.count == 1);
      }
      CHECK(covered);
    }
    for (const TimelineBar& bar : bars) check_bar(bar, row, visible);
    for (std::size_t i = 1; i < bars.size() && row.disjoint(); ++i) CHECK(bars[i].x0 >= bars[i - 1].x0);
  }

  /// A bar must lie over events, and look like those that fill most of it.
  void check_bar(const TimelineBar& bar, const EventRow& row, const std::vector<Event>& visible) {
    if (!row.disjoint()) return;
    std::map<std::tuple<Kind, int, int>, double> time;
    double all = 0;
    std::int64_t count = 0;
    for (const Event& event : visible) {
      if (event.begin_ns < bar.look.begin_ns || event.end_ns > bar.look.end_ns) continue;
      const double length = std::max<double>(1, static_cast<double>(event.end_ns - event.begin_ns));
      time[{event.kind, event.detail, event.bucket}] += length;
      all += length;
      ++count;
    }
    CHECK(count >= 1);
    CHECK(bar.count >= 1);
    for (const auto& [look, length] : time) {
      if (length * 2 <= all + 1 || bar.x0 <= 0 || bar.x1 >= view.width_px()) continue;
      CHECK(look ==
            std::tuple(bar.look.kind, static_cast<int>(bar.look.detail), static_cast<int>(bar.look.bucket)));
    }
  }
};

std::vector<Event> in_disorder(std::vector<Event> events) {
  RandomStream random(4);
  for (std::size_t i = events.size() - 1; i > 0; --i)
    std::swap(events[i], events[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  return events;
}

}  // namespace

TEST_CASE("every event is covered at every zoom, exposed waits never lost") {
  Scene scene(test::random_trace(2, 60, 11), 2);
  RandomStream random(12);
  const double whole = scene.view.span_ns();
  for (int zoom = 0; zoom < 14; ++zoom) {
    scene.check();
    scene.view.zoom_at(static_cast<double>(random.below(1000)), 0.45);
    scene.view.clamp_to(scene.index.range());
  }
  CHECK(scene.view.span_ns() < whole / 10'000);
  // Past both ends.
  scene.view.fit(scene.index.range());
  scene.view.pan_px(600);
  scene.check();
  scene.view.pan_px(-1300);
  scene.check();
}

TEST_CASE("events in disorder are covered, too") {
  Scene scene(in_disorder(test::random_trace(2, 40, 13)), 2);
  for (int zoom = 0; zoom < 8; ++zoom) {
    scene.check();
    scene.view.zoom_at(300, 0.4);
  }
}

TEST_CASE("the number of bars is bounded, and bars are as fine as the bound allows") {
  Scene scene(test::random_trace(4, 300, 14), 4);
  for (const std::size_t most : {std::size_t{200}, std::size_t{1000}, std::size_t{5000}}) {
    const DrawLimits limits{.merge_px = 3, .most_bars = most};
    std::size_t bars = 0;
    for (int frame = 0; frame < 4; ++frame) bars = scene.check(limits);
    CHECK(bars > most / 16);
  }
  CHECK(scene.check({.merge_px = 3, .most_bars = 100'000}) > 0);
  for (int frame = 0; frame < 8; ++frame)
    scene.drawing.draw(scene.index, scene.rows, 0, scene.rows.rows.size(), scene.view,
                       {.merge_px = 3, .most_bars = 100'000});
  CHECK(scene.drawing.merge_px() == 3);
}

TEST_CASE("what is long enough is drawn one by one") {
  Scene scene(test::random_trace(1, 2, 15), 1);
  scene.view.show(0, 3000);
  const auto bars = scene.drawing.draw(scene.index, scene.rows, 0, scene.rows.rows.size(), scene.view);
  int long_ones = 0;
  for (const TimelineBar& bar : bars) {
    if (bar.x1 - bar.x0 < 4) continue;
    ++long_ones;
    CHECK(bar.count == 1);
    const Event event = scene.index.event(bar.event);
    CHECK(event.begin_ns == bar.look.begin_ns);
    CHECK(event.kind == bar.look.kind);
  }
  CHECK(long_ones > 5);
}

TEST_CASE("the event under the mouse") {
  Scene scene(test::random_trace(1, 3, 16), 1);
  for (std::size_t i = 0; i < scene.rows.rows.size(); ++i) {
    const EventRow& row = *scene.rows.rows[i].row;
    for (std::int64_t e = 0; e < row.events().size(); ++e) {
      const EventId id = row.events().arrived(e);
      const Event event = scene.index.event(id);
      scene.view.show(static_cast<double>(event.begin_ns) - 100, static_cast<double>(event.end_ns) + 100);
      const double middle = scene.view.x_of(static_cast<double>(event.begin_ns + event.end_ns) / 2);
      const EventId found = event_at(scene.index, row, scene.view, middle, 0.4);
      REQUIRE(found >= 0);
      const Event hit = scene.index.event(found);
      CHECK(hit.begin_ns == event.begin_ns);
      CHECK(hit.end_ns == event.end_ns);
      CHECK(scene.rows.row_of(scene.index, id) == static_cast<int>(i));
      const float y = (scene.rows.rows[i].y0 + scene.rows.rows[i].y1) / 2;
      CHECK(scene.rows.row_at(y) == static_cast<int>(i));
    }
  }
  CHECK(scene.rows.row_at(-5) == -1);
  CHECK(scene.rows.row_at(1e6F) == -1);
}

TEST_CASE("a folded rank shows what it communicates and where it waits") {
  EventIndex index(3);
  index.push(test::random_trace(3, 2, 17));
  index.absorb();
  const TimelineRows open(index, {}, {});
  const TimelineRows folded(index, {}, {1});
  CHECK(folded.height < open.height);
  int rank_1 = 0;
  for (const TimelineRow& row : folded.rows) {
    if (row.lane->rank() != 1) continue;
    ++rank_1;
    CHECK((row.row->level() == level_of(Kind::collective_run) ||
           row.row->level() == level_of(Kind::collective_wait)));
  }
  CHECK(rank_1 >= 2);
}

TEST_CASE("a view keeps what is under the cursor, and stays near the run") {
  TimeView view;
  view.set_width(800);
  view.show(1000, 9000);
  const double before = view.ns_at(300);
  view.zoom_at(300, 0.5);
  CHECK(view.ns_at(300) == doctest::Approx(before));
  CHECK(view.span_ns() == doctest::Approx(4000));
  view.pan_px(-100);
  CHECK(view.ns_at(400) == doctest::Approx(before));
  for (int i = 0; i < 200; ++i) view.zoom_at(10, 0.5);
  CHECK(view.span_ns() == TimeView::least_span_ns);
  for (int i = 0; i < 200; ++i) view.zoom_at(10, 2);
  view.clamp_to({0, 10'000});
  CHECK(view.span_ns() <= 200'000);
  view.show(1e9, 2e9);
  view.clamp_to({0, 10'000});
  CHECK(view.start_ns() < 10'000);
  CHECK(TimeView::to_ns(1e30) == INT64_MAX);
  CHECK(TimeView::to_ns(-1e30) == INT64_MIN);
}

}  // namespace zero1::viz
