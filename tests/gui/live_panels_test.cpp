// The panels of a live run, driven by mouse and keys.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.h"
#include "tests/gui/find_item.h"
#include "tests/gui/live_panel.h"
#include "tests/gui/screen_text.h"
#include "viz/model/element_probe.h"
#include "viz/model/event_index.h"
#include "viz/model/exposure_reasons.h"
#include "viz/model/history.h"

using namespace zero1;
using namespace zero1::viz;
using namespace zero1::viz::test;
using trace::Kind;

namespace {

std::optional<EventId> find_event(const EventIndex& events, Kind kind, int rank) {
  EventFilter filter;
  filter.kind = kind;
  filter.rank = rank;
  return events.first_after(-1, filter);
}

}  // namespace

TEST_CASE("keys step and run, and buttons do the same") {
  LivePanel at(make_control_panel());
  Document& document = at.document;
  Gui& gui = at.gui;
  const auto released = [&] {
    return document.events->size() + static_cast<std::int64_t>(document.live->held().size());
  };
  const std::int64_t before = released();
  for (int i = 0; i < 20; ++i) {
    gui.key('N');
    settle(document);
  }
  CHECK(released() > before);
  CHECK(document.live->state() == RunState::paused);

  gui.key('I');
  settle(document);
  CHECK(document.live->state() == RunState::paused);
  const auto step_of_held = [&] {
    int step = 0;
    for (const trace::Event& event : document.live->held())
      step = std::max(step, static_cast<int>(event.step));
    return step;
  };
  CHECK(step_of_held() >= 2);

  click_item(gui, "Control", "Phase (P)");
  settle(document);
  click_item(gui, "Control", "###run");
  gui.frame();
  CHECK(document.live->gate().running());
  gui.key(' ');
  CHECK(!document.live->gate().running());
  settle(document);
  gui.key(' ');
  CHECK(document.live->gate().running());
}

TEST_CASE("a breakpoint is set by selecting and one key or click, stops the run, and can be removed") {
  LivePanel at(make_control_panel(), 300);
  Document& document = at.document;
  Gui& gui = at.gui;

  const auto adamw = find_event(*document.events, Kind::adamw, 1);
  REQUIRE(adamw);
  Selection selection;
  selection.event = *adamw;
  document.selection.set(selection);
  gui.key('K');
  REQUIRE(document.live->breakpoints().entries().size() == 1);
  const trace::Breakpoint where = document.live->breakpoints().entries()[0].where;
  CHECK(where.kind == Kind::adamw);
  CHECK(where.rank == 1);
  gui.key('R');
  settle(document);
  const auto held = document.live->held();
  CHECK(std::any_of(held.begin(), held.end(), [&](const trace::Event& e) { return where.matches(e); }));

  selection = {};
  selection.bucket = 2;
  document.selection.set(selection);
  click_item(gui, "Control", "Break here (K)");
  REQUIRE(document.live->breakpoints().entries().size() == 2);
  click_item(gui, "Control", "##on", {0});
  CHECK(document.live->gate().breakpoints().size() == 1);
  click_item(gui, "Control", "x", {0});
  REQUIRE(document.live->breakpoints().entries().size() == 1);
  CHECK(document.live->breakpoints().entries()[0].where.bucket == 2);
}

TEST_CASE("slow motion is switched on and off in the panel") {
  LivePanel at(make_control_panel());
  Document& document = at.document;
  Gui& gui = at.gui;
  click_item(gui, "Control", "Slow motion");
  CHECK(document.live->slow_motion() > 0);
  gui.key('N');  // any other command ends it
  CHECK(document.live->slow_motion() == 0);
}

TEST_CASE("the view steps back and follows again") {
  LivePanel at(make_control_panel(), 100);
  Document& document = at.document;
  Gui& gui = at.gui;
  const std::int64_t now_ns = document.moment.at_ns;
  gui.click({600, 790});  // the panel has the focus
  gui.key(ImGuiKey_LeftArrow);
  gui.key(ImGuiKey_LeftArrow);
  CHECK(!document.moment.follow);
  const std::int64_t back_ns = document.moment.at_ns;
  CHECK(back_ns < now_ns);
  CHECK(!document.change.empty());
  gui.key(ImGuiKey_RightArrow);
  CHECK(document.moment.at_ns > back_ns);
  gui.key(ImGuiKey_End);
  CHECK(document.moment.follow);
  CHECK(document.moment.at_ns == now_ns);
}

TEST_CASE("an element is followed by choosing it, and by selecting it elsewhere") {
  TrainConfig config = small_run(2);
  Document document = live_document(config, paused());
  const auto panel = make_element_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  settle(document);
  gui.frame(2);
  CHECK(!document.live->element().place());
  click_item(gui, "Element", "Follow");
  gui.frame();
  REQUIRE(document.live->element().place());
  CHECK(document.live->element().place()->element == ElementRef{0, 0});
  CHECK(document.selection.element == 0);

  Selection selection;
  selection.param = 9;
  selection.element = 5;
  document.selection.set(selection);
  gui.frame(2);
  CHECK(document.live->element().place()->element == ElementRef{9, 5});
  const int before = gui.vertices();
  document.live->run();
  take_all(document);
  gui.frame(2);
  CHECK(document.live->element().samples().size() > 20);
  CHECK(gui.vertices() > before + 1000);  // a table of values

  selection.param = 10'000;  // of another model
  document.selection.set(selection);
  gui.frame(2);
}

TEST_CASE("the log filters by typed words, and a click selects the event everywhere") {
  Document document = live_document(small_run(2), {});
  take_all(document);
  const auto panel = make_log_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  gui.frame(3);
  click_item(gui, "Event log", "##text");
  gui.type("gradient ready ln_2.bias");
  gui.frame(2);
  gui.click({25, 120});  // in the first column, clear of its border
  REQUIRE(document.selection.event);
  const trace::Event event = document.events->event(*document.selection.event);
  CHECK(event.kind == Kind::grad_ready);
  CHECK(document.info.params[static_cast<std::size_t>(event.param)].find("ln_2.bias") != std::string::npos);
  CHECK(document.selection.param == event.param);
  CHECK(document.selection.rank == event.rank);
  CHECK(document.selection.bucket == event.bucket);
  CHECK(document.selection.step == event.step);

  gui.double_click({25, 120});
  CHECK(!document.moment.follow);
  CHECK(document.moment.at_ns == document.events->event(*document.selection.event).end_ns);
}

TEST_CASE("by keys alone the log is walked, filtered, and its menu sets a breakpoint") {
  LivePanel at(make_log_panel(), 300);
  Document& document = at.document;
  Gui& gui = at.gui;
  ImGui::GetIO().ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;  // as in the window
  gui.frame(3);
  const auto selected = [&] {
    REQUIRE(document.selection.event);
    return document.events->event(*document.selection.event);
  };
  const auto menu_key = [&] {
    gui.shift(true);
    gui.function_key(10);
    gui.shift(false);
  };
  const auto breakpoints = [&] { return document.live->breakpoints().entries(); };
  gui.key(ImGuiKey_Home);
  std::int64_t before_ns = INT64_MIN;
  for (int row = 0; row < 60; ++row) {  // beyond what is on screen at once
    gui.key(ImGuiKey_DownArrow);
    const std::int64_t end_ns = selected().end_ns;
    CHECK(end_ns >= before_ns);
    before_ns = end_ns;
  }
  const EventId here = *document.selection.event;
  gui.key(ImGuiKey_DownArrow);
  CHECK(document.selection.event != here);
  gui.key(ImGuiKey_UpArrow);
  CHECK(document.selection.event == here);
  CHECK(document.moment.follow);
  gui.key(ImGuiKey_Enter);
  CHECK(!document.moment.follow);
  CHECK(document.moment.at_ns == before_ns);

  menu_key();
  gui.key(ImGuiKey_Escape);
  CHECK(breakpoints().empty());
  gui.key('/');
  gui.type("adamw");
  gui.key(ImGuiKey_Enter);
  gui.frame(3);
  gui.key(ImGuiKey_DownArrow);
  const trace::Event wanted = selected();
  CHECK(wanted.kind == Kind::adamw);
  menu_key();
  gui.key(ImGuiKey_Enter);
  REQUIRE(breakpoints().size() == 1);
  CHECK(breakpoints()[0].where == breakpoint_at(wanted));
  // The rows have the keys again, and another key does the same.
  gui.key(ImGuiKey_DownArrow);
  const trace::Event next = selected();
  gui.press_key(348);
  gui.key(' ');
  REQUIRE(breakpoints().size() == 2);
  CHECK(breakpoints()[1].where == breakpoint_at(next));
  gui.press_key(348);
  gui.key(ImGuiKey_DownArrow);  // to "Show this moment"
  gui.key(ImGuiKey_Enter);
  CHECK(breakpoints().size() == 2);
  CHECK(document.moment.at_ns == next.end_ns);

  document.live->run();
  settle(document);
  const auto held = document.live->held();
  CHECK(std::any_of(held.begin(), held.end(), [&](const trace::Event& event) {
    return breakpoints()[0].where.matches(event) || breakpoints()[1].where.matches(event);
  }));
}

TEST_CASE("a right click on the log's row offers to break there") {
  LivePanel at(make_log_panel(), 300);
  at.gui.frame(3);
  at.gui.click({25, 120}, 1);
  REQUIRE(at.document.selection.event);
  const trace::Event event = at.document.events->event(*at.document.selection.event);
  at.gui.click({60, 130});  // the menu opens at the mouse, "Break" on top
  REQUIRE(at.document.live->breakpoints().entries().size() == 1);
  CHECK(at.document.live->breakpoints().entries()[0].where == breakpoint_at(event));
}

TEST_CASE("the overlap panel draws each iteration, and a click on a bucket's row selects it") {
  TrainConfig config = small_run(2);
  config.link = {0.05, 10};
  Document document = live_document(config, {});
  take_all(document);
  const auto panel = make_overlap_panel();
  Theme theme;
  Gui gui(*panel, document, theme);
  gui.frame(6);
  CHECK(gui.triangles_coloured(theme.exposed()) > 0);
  // The bars' first one is the first iteration.
  gui.click({12, 60});
  REQUIRE(document.selection.step);
  CHECK(*document.selection.step == 1);
  gui.frame(3);
  gui.click(find_item(gui, "Overlap", "bars"));
  for (float y = 100; y < 400 && !document.selection.bucket; y += 9) gui.click({30, y});
  CHECK(document.selection.bucket);
}

TEST_CASE("the overlap panel shows every iteration, and all its figures are per rank") {
  constexpr int iterations = 25;
  TrainConfig config = small_run(2);
  config.train_iters = iterations;
  config.link = {0.5, 10};
  Document document = live_document(config, {});
  take_all(document);
  const auto panel = make_overlap_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  gui.frame();
  for (int frames = 0; panel->unfinished(); ++frames) {
    REQUIRE(frames < 2 * iterations);
    gui.frame();
  }
  constexpr float bar_px = 9;
  for (int i = 0; i < iterations; ++i) {
    CAPTURE(i);
    gui.move({8 + bar_px * (static_cast<float>(i) + 0.5F), 60});
    CHECK(on_screen(fmt::format("iteration {}: ", i + 1)));
  }
  // Of "85.06 µs" the number: the built-in font lacks the sign.
  const auto number = [](std::int64_t ns) {
    const std::string text = format_duration_ns(ns);
    return text.substr(0, text.find(' '));
  };
  const StepExposure step = explain_step(*document.events, iterations, overlap_flags(document.info));
  INFO(screen_text());
  CHECK(on_screen("all figures per rank, means of 2"));
  for (const auto& [bucket, figures] : step.report.buckets) {
    CHECK(on_screen(number(figures.comm_ns / 2)));
    CHECK(on_screen(number(figures.exposed_ns / 2)));
  }
  const ExposureReason reason = step.all.largest();
  CHECK(on_screen("Most of it, " + number(step.all[reason] / 2)));
  CHECK(on_screen(fmt::format(": {}.", name(reason))));
  CHECK(panel->help().find("overlap  ") != std::string::npos);
  CHECK(panel->help().find("exposed  ") != std::string::npos);
}

TEST_CASE("panels have something to say without a run, and without anything") {
  Document nothing;
  Document recording;
  recording.info.ranks = 2;
  recording.events = std::make_shared<EventIndex>(2);
  recording.layout = std::make_shared<const Layout>(run_shape(small_run(2)).layout);
  const Theme theme;
  for (const auto& make : {make_control_panel, make_element_panel, make_log_panel, make_overlap_panel}) {
    for (Document* document : {&nothing, &recording}) {
      const auto panel = make();
      Gui gui(*panel, *document, theme);
      gui.frame(2);
      gui.key('N');
      gui.key('K');
      gui.key(' ');
      gui.key(ImGuiKey_End);
      CHECK(gui.vertices() > 0);
      CHECK(!panel->help().empty());
    }
  }
}
