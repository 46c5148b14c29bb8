// The panels of a live run, driven by mouse and keys.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/gui/find_item.h"
#include "tests/gui/live_support.h"
#include "viz/model/element_probe.h"
#include "viz/model/event_index.h"
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
  TrainConfig config = small_run(2);
  config.train_iters = 1'000'000;
  Document document = live_document(config, paused());
  const auto panel = make_control_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  settle(document);
  gui.frame(2);
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
  TrainConfig config = small_run(2);
  config.train_iters = 1'000'000;
  Document document = live_document(config, paused());
  const auto panel = make_control_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  record_some(document, 300);
  gui.frame(2);

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
  TrainConfig config = small_run(2);
  config.train_iters = 1'000'000;
  Document document = live_document(config, paused());
  const auto panel = make_control_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  settle(document);
  gui.frame(2);
  click_item(gui, "Control", "Slow motion");
  CHECK(document.live->slow_motion() > 0);
  gui.key('N');  // any other command ends it
  CHECK(document.live->slow_motion() == 0);
}

TEST_CASE("the view steps back and follows again") {
  TrainConfig config = small_run(2);
  config.train_iters = 1'000'000;
  Document document = live_document(config, paused());
  const auto panel = make_control_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  record_some(document, 100);
  gui.frame(2);
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
  while (!document.live->over()) take_over(document);
  take_over(document);
  gui.frame(2);
  CHECK(document.live->element().samples().size() > 20);
  CHECK(gui.vertices() > before + 1000);  // a table of values

  selection.param = 10'000;  // of another model
  document.selection.set(selection);
  gui.frame(2);
}

TEST_CASE("the log filters by typed words, and a click selects the event everywhere") {
  Document document = live_document(small_run(2), {});
  while (!document.live->over()) take_over(document);
  take_over(document);
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

TEST_CASE("the overlap panel draws each iteration, and a click on a bucket's row selects it") {
  TrainConfig config = small_run(2);
  config.link = {0.05, 10};
  Document document = live_document(config, {});
  while (!document.live->over()) take_over(document);
  take_over(document);
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
