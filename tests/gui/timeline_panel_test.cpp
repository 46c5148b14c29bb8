// The timeline's panel, used as with mouse and keyboard.
#include "viz/panels/timeline_panel.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/gui/gui_test.h"
#include "tests/gui/timeline_random_trace.h"

namespace zero1::viz {

using trace::Kind;

namespace {

struct Fixture {
  Document document;
  Theme theme;
  TimelinePanel panel;
  test::Gui gui;

  explicit Fixture(int ranks = 2, int steps = 5) : gui(panel, document, theme) {
    document.info = test::random_trace_info(ranks);
    document.events = std::make_shared<EventIndex>(ranks);
    document.events->push(test::random_trace(ranks, steps, 21));
    document.events->absorb();
    gui.frame(2);
  }

  const EventIndex& events() const { return *document.events; }
  ImVec2 middle() const {
    const Box& box = panel.lanes_box();
    // ImGui cuts positions to whole pixels.
    return {std::floor((box.min.x + box.max.x) / 2), std::floor(box.min.y + 60)};
  }
  double ns_under(ImVec2 at) const { return panel.view().ns_at(at.x - panel.lanes_box().min.x); }
  /// Where an event lies on the screen.
  ImVec2 place_of(EventId id) const {
    const trace::Event event = events().event(id);
    const int row = panel.rows().row_of(events(), id);
    REQUIRE(row >= 0);
    const TimelineRow& place = panel.rows().rows[static_cast<std::size_t>(row)];
    const double x =
        panel.view().x_of((static_cast<double>(event.begin_ns) + static_cast<double>(event.end_ns)) / 2);
    return {panel.lanes_box().min.x + static_cast<float>(x),
            panel.lanes_box().min.y - panel.scroll_px() + (place.y0 + place.y1) / 2};
  }
  /// As another panel does.
  void select(EventId id) {
    Selection next;
    next.event = id;
    next.rank = events().event(id).rank;
    next.bucket = events().event(id).bucket;
    document.selection.set(next);
  }
  EventId first(const EventFilter& filter, std::int64_t after_ns = -1) const {
    const auto found = events().first_after(after_ns, filter);
    REQUIRE(found);
    return *found;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a recording is shown whole at first") {
  CHECK(panel.view().start_ns() <= 0);
  CHECK(panel.view().end_ns() >= static_cast<double>(events().range().end_ns));
  CHECK(gui.vertices() > 500);
  CHECK(gui.triangles_coloured(theme.exposed()) > 0);
}

TEST_CASE_FIXTURE(Fixture, "the wheel zooms at the cursor") {
  const ImVec2 at{middle().x + 123, middle().y};
  const double before = ns_under(at), span = panel.view().span_ns();
  gui.wheel(at, 3);
  CHECK(ns_under(at) == doctest::Approx(before).epsilon(1e-6));
  CHECK(panel.view().span_ns() == doctest::Approx(span * 0.512));
  gui.wheel(at, -3);
  CHECK(panel.view().span_ns() == doctest::Approx(span));
}

TEST_CASE_FIXTURE(Fixture, "a drag pans by as much as the mouse moves") {
  gui.wheel(middle(), 8);
  const double before = ns_under(middle());
  gui.drag(middle(), {middle().x + 100, middle().y});
  CHECK(ns_under({middle().x + 100, middle().y}) == doctest::Approx(before).epsilon(1e-3));
  CHECK_FALSE(document.selection.event);
}

TEST_CASE_FIXTURE(Fixture, "a click selects the event, its rank, bucket, parameter and step") {
  for (const EventFilter& filter :
       {EventFilter{.kind = Kind::collective_run, .rank = 1}, EventFilter{.kind = Kind::forward, .rank = 0},
        EventFilter{.kind = Kind::grad_ready, .rank = 1}, EventFilter{.kind = Kind::step}}) {
    const EventId id = first(filter, 3000);
    const trace::Event event = events().event(id);
    select(id);
    gui.key('F');  // brings it near
    gui.frame();
    document.selection.clear();
    const std::uint64_t revision = document.selection.revision;
    gui.click(place_of(id));
    REQUIRE(document.selection.event);
    const trace::Event selected = events().event(*document.selection.event);
    CHECK(selected.begin_ns == event.begin_ns);
    CHECK(selected.kind == event.kind);
    CHECK(document.selection.rank == event.rank);
    CHECK(document.selection.bucket ==
          (selected.bucket >= 0 ? std::optional(selected.bucket) : std::nullopt));
    CHECK(document.selection.param == (selected.param >= 0 ? std::optional(selected.param) : std::nullopt));
    CHECK(document.selection.step == selected.step);
    CHECK(document.selection.revision > revision);
  }
  // Beside all events: nothing.
  gui.click({panel.lanes_box().max.x - 5, panel.lanes_box().max.y - 3});
  CHECK_FALSE(document.selection.event);
}

TEST_CASE_FIXTURE(Fixture, "F shows the selected event, then everything") {
  const EventId id = first({.kind = Kind::adamw, .rank = 1}, 5000);
  select(id);
  gui.key('F');
  const trace::Event event = events().event(id);
  CHECK(panel.view().span_ns() < 2 * static_cast<double>(event.end_ns - event.begin_ns) + 50);
  CHECK(panel.view().start_ns() < static_cast<double>(event.begin_ns));
  CHECK(panel.view().end_ns() > static_cast<double>(event.end_ns));
  gui.key('F');
  CHECK(panel.view().end_ns() >= static_cast<double>(events().range().end_ns));
  gui.wheel(middle(), 6);
  gui.key(ImGuiKey_Home);
  CHECK(panel.view().end_ns() >= static_cast<double>(events().range().end_ns));
}

TEST_CASE_FIXTURE(Fixture, "W, A, S and D move the view") {
  const double span = panel.view().span_ns();
  gui.hold_key('W', true);
  gui.frame(10);
  gui.hold_key('W', false);
  CHECK(panel.view().span_ns() < span * 0.95);
  const double start = panel.view().start_ns();
  gui.hold_key('D', true);
  gui.frame(5);
  gui.hold_key('D', false);
  CHECK(panel.view().start_ns() > start);
  gui.hold_key('A', true);
  gui.frame(20);
  gui.hold_key('A', false);
  CHECK(panel.view().start_ns() < start);
  const double zoomed = panel.view().span_ns();
  gui.hold_key('S', true);
  gui.frame(5);
  gui.hold_key('S', false);
  CHECK(panel.view().span_ns() > zoomed);
}

TEST_CASE_FIXTURE(Fixture, "a right drag measures, and the figures are those of the range") {
  const ImVec2 from{middle().x - 200, middle().y}, to{middle().x + 100, middle().y};
  gui.drag(from, to, 1);
  gui.frame(3);
  REQUIRE(panel.measured());
  CHECK(static_cast<double>(panel.measured()->start_ns) == doctest::Approx(ns_under(from)).epsilon(1e-3));
  CHECK(static_cast<double>(panel.measured()->end_ns) == doctest::Approx(ns_under(to)).epsilon(1e-3));
  REQUIRE(panel.statistics() != nullptr);
  REQUIRE(panel.statistics()->complete());
  const auto forward = panel.statistics()->kinds().find({Kind::forward, 0});
  REQUIRE(forward != panel.statistics()->kinds().end());
  std::int64_t count = 0;
  for (EventId id = 0; id < events().size(); ++id) {
    const trace::Event event = events().event(id);
    count += event.kind == Kind::forward && event.end_ns > panel.measured()->start_ns &&
                     event.begin_ns < panel.measured()->end_ns
                 ? 1
                 : 0;
  }
  CHECK(forward->second.count == count);
  gui.key(ImGuiKey_Escape);
  CHECK_FALSE(panel.measured());
}

TEST_CASE_FIXTURE(Fixture, "the search jumps from one match to the next") {
  gui.ctrl_key('F');
  gui.type("adamw b2");
  gui.key(ImGuiKey_Enter);
  REQUIRE(document.selection.event);
  const EventId one = *document.selection.event;
  CHECK(events().event(one).kind == Kind::adamw);
  CHECK(document.selection.bucket == 2);
  gui.key(ImGuiKey_Enter);
  const EventId two = *document.selection.event;
  CHECK(two != one);
  CHECK(events().event(two).bucket == 2);
  CHECK(events().event(two).end_ns >= events().event(one).end_ns);
  // Out of the field, by keys.
  gui.click({panel.strip_box().min.x - 20, panel.strip_box().min.y + 5});
  gui.shift(true);
  gui.function_key(3);
  gui.shift(false);
  CHECK(document.selection.event == one);
}

TEST_CASE_FIXTURE(Fixture, "what is selected elsewhere comes into view") {
  gui.wheel(middle(), 12);
  const EventId last = *events().last_at(INT64_MAX, {.kind = Kind::forward, .rank = 1});
  select(last);
  gui.frame(2);
  const trace::Event event = events().event(last);
  CHECK(panel.view().start_ns() <= static_cast<double>(event.begin_ns));
  CHECK(panel.view().end_ns() >= static_cast<double>(event.end_ns));

  Selection step;
  step.step = 2;
  document.selection.set(step);
  gui.frame(2);
  CHECK(panel.view().end_ns() >= static_cast<double>(events().steps()[2].when.end_ns));
  CHECK(panel.view().end_ns() < static_cast<double>(events().steps()[3].when.end_ns));

  // A rank beside it leaves the view where it is; the same step once more leads back to it.
  gui.wheel(middle(), 6);
  const double start = panel.view().start_ns();
  step.rank = 1;
  document.selection.set(step);
  gui.frame(2);
  CHECK(panel.view().start_ns() == start);
  CHECK(gui.triangles_coloured(theme.selected()) > 0);  // the name of the rank is framed
  document.selection.set(step);
  gui.frame(2);
  CHECK(panel.view().start_ns() < start);
}

TEST_CASE("of many ranks the selected one comes into view") {
  Fixture fixture(12, 3);
  Selection rank;
  rank.rank = 11;
  fixture.document.selection.set(rank);
  fixture.gui.frame(2);
  float top = -1;
  for (const TimelineLane& lane : fixture.panel.rows().lanes) {
    if (lane.rank == 11 && top < 0) top = lane.y0 - fixture.panel.scroll_px();
  }
  CHECK(top >= 0);
  CHECK(top < fixture.panel.lanes_box().height());
}

TEST_CASE_FIXTURE(Fixture, "arrow keys go from event to event and from row to row") {
  const EventId id = first({.kind = Kind::forward, .rank = 0}, 4000);
  select(id);
  gui.key('F');
  gui.key(ImGuiKey_RightArrow);
  const EventId next = *document.selection.event;
  CHECK(next != id);
  CHECK(events().event(next).begin_ns >= events().event(id).end_ns);
  gui.key(ImGuiKey_LeftArrow);
  CHECK(document.selection.event == id);
  gui.key(ImGuiKey_UpArrow);
  CHECK(events().event(*document.selection.event).kind == Kind::microbatch);
  gui.key(ImGuiKey_DownArrow);
  CHECK(level_of(events().event(*document.selection.event).kind) == level_of(Kind::forward));
}

TEST_CASE_FIXTURE(Fixture, "a click in the strip goes to that step, brackets to its neighbours") {
  const Box strip = panel.strip_box();
  gui.click({strip.min.x + 2.5F * 40, strip.max.y - 2});
  const trace::Interval third = events().steps()[2].when;
  CHECK(panel.view().start_ns() == doctest::Approx(static_cast<double>(third.start_ns)).epsilon(0.05));
  CHECK(panel.view().end_ns() == doctest::Approx(static_cast<double>(third.end_ns)).epsilon(0.05));
  CHECK(document.selection.step == events().steps()[2].step);
  gui.key(']');
  CHECK(panel.view().end_ns() > static_cast<double>(events().steps()[3].when.end_ns));
  CHECK(document.selection.step == events().steps()[3].step);
  gui.key('[');
  gui.key('[');
  CHECK(panel.view().end_ns() < static_cast<double>(events().steps()[2].when.end_ns));
}

TEST_CASE_FIXTURE(Fixture, "the time axis sets the moment, V follows again") {
  const Box axis = panel.axis_box();
  const ImVec2 at{std::floor(axis.min.x + 300), std::floor((axis.min.y + axis.max.y) / 2)};
  const double expected = ns_under(at);
  gui.click(at);
  CHECK_FALSE(document.moment.follow);
  CHECK(static_cast<double>(document.moment.at_ns) == doctest::Approx(expected).epsilon(1e-3));
  gui.key('V');
  CHECK(document.moment.follow);
  gui.key('V');
  CHECK_FALSE(document.moment.follow);
}

TEST_CASE_FIXTURE(Fixture, "the order of causes shows the same events; clicks mean the same") {
  const EventId run = first({.kind = Kind::collective_run, .rank = 1}, 4000);
  gui.key('L');
  REQUIRE(panel.logical());
  select(run);
  gui.key('F');
  gui.frame();
  CHECK(panel.view().span_ns() < 2 * LogicalOrder::unit_ns);
  document.selection.clear();
  const Box lanes = panel.lanes_box();
  for (const TimelineRow& row : panel.rows().rows) {
    if (row.lane->rank() != 1 || row.row->level() != level_of(Kind::collective_run)) continue;
    gui.click({(lanes.min.x + lanes.max.x) / 2, lanes.min.y - panel.scroll_px() + (row.y0 + row.y1) / 2});
    break;
  }
  CHECK(document.selection.event == run);
  gui.key('L');
  CHECK_FALSE(panel.logical());
}

TEST_CASE_FIXTURE(Fixture, "arrows lead from gradients over the issue and the run to the wait") {
  const EventId run = first({.kind = Kind::collective_run, .rank = 0, .bucket = 1}, 4000);
  select(run);
  gui.frame(2);
  CHECK(panel.arrows() > 2);
  gui.key('E');
  gui.frame();
  const int without = gui.vertices();
  gui.key('E');
  gui.frame();
  CHECK(gui.vertices() > without);
}

TEST_CASE_FIXTURE(Fixture, "a rank folds and unfolds at a click on its name") {
  const float before = panel.rows().height;
  const ImVec2 name{panel.lanes_box().min.x - 30, panel.lanes_box().min.y + 5};
  gui.click(name);
  CHECK(panel.rows().height < before);
  gui.click(name);
  CHECK(panel.rows().height == doctest::Approx(before));
  Selection rank;
  rank.rank = 1;
  document.selection.set(rank);
  gui.key('C');
  CHECK(panel.rows().height < before);
  gui.key('C');
  CHECK(panel.rows().height == doctest::Approx(before));
}

TEST_CASE("a frame's drawing is bounded at every zoom") {
  Fixture fixture(8, 400);
  for (int zoom = 0; zoom < 10; ++zoom) {
    fixture.gui.frame(3);
    CHECK(fixture.panel.primitives() <= 20'000);
    CHECK(fixture.gui.vertices() <= 4 * 20'000);
    CHECK(fixture.gui.vertices() > 400);
    fixture.gui.wheel(fixture.middle(), 5);
  }
}

TEST_CASE("events that arrive while the view is open are followed") {
  Document document;
  Theme theme;
  TimelinePanel panel;
  document.info = test::random_trace_info(2);
  document.events = std::make_shared<EventIndex>(2);
  test::Gui gui(panel, document, theme);
  gui.frame(2);
  const std::vector<trace::Event> events = test::random_trace(2, 20, 22);
  double end = 0;
  for (std::size_t at = 0; at < events.size(); at += 100) {
    document.events->push(std::span(events).subspan(at, std::min<std::size_t>(100, events.size() - at)));
    document.events->absorb();
    gui.frame();
    CHECK(panel.view().end_ns() >= static_cast<double>(document.events->range().end_ns));
    CHECK(panel.view().end_ns() >= end);
    end = panel.view().end_ns();
  }
  CHECK(document.moment.follow);
}

TEST_CASE("nothing recorded, nothing to show, and a document that changes") {
  Document document;
  Theme theme;
  TimelinePanel panel;
  test::Gui gui(panel, document, theme);
  gui.frame(2);
  document.events = std::make_shared<EventIndex>(1);
  gui.frame(2);
  for (const char key : {'F', 'L', 'L', 'N', 'M', 'T', 'V', '[', ']'}) gui.key(key);
  gui.key(ImGuiKey_RightArrow);
  gui.key(ImGuiKey_UpArrow);
  document.info = test::random_trace_info(2);
  document.events = std::make_shared<EventIndex>(2);
  document.events->push(test::random_trace(2, 3, 23));
  document.events->absorb();
  gui.frame(2);
  CHECK(panel.view().end_ns() >= static_cast<double>(document.events->range().end_ns));
  gui.key('L');
  document.events.reset();
  gui.frame(2);
}

}  // namespace zero1::viz
