// What the panels of a live run show: who waits, values, what has changed, and a log of any length.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/gui/live_panel.h"
#include "tests/gui/screen_text.h"
#include "viz/model/bucket_states.h"
#include "viz/model/element_place.h"
#include "viz/model/element_probe.h"
#include "viz/model/event_index.h"
#include "viz/model/scenario.h"

using namespace zero1;
using namespace zero1::viz;
using namespace zero1::viz::test;
using trace::Kind;

TEST_CASE("while it is paused the panel says who stands still and where, and what was dropped") {
  LivePanel at(make_control_panel(), 300);
  Document& document = at.document;
  Gui& gui = at.gui;
  const auto texts = [&] {
    std::vector<std::string> all;
    for (const Wait& wait : document.live->waiting()) all.push_back(wait.text);
    return all;
  };
  // Ranks arrive one after another: until nobody has moved while it was drawn.
  std::vector<std::string> waits;
  do {
    waits = texts();
    gui.frame(2);
  } while (waits.empty() || waits != texts());
  CHECK(on_screen("0 events dropped"));
  CHECK(on_screen("Who stands still"));
  for (const std::string& wait : waits) {
    INFO(wait);
    // The beginning of it: long ones are broken.
    CHECK(on_screen(wait.substr(0, 20)));
  }
  document.live->run();
  gui.frame(2);
  CHECK(!on_screen("Who stands still"));
}

TEST_CASE("beside the gradient buffers' values stands what they are, and of which iteration") {
  LivePanel at(make_element_panel(), 300);
  Document& document = at.document;
  Selection selection;
  selection.param = 9;
  selection.element = 5;
  document.selection.set(selection);
  for (int stop = 0; stop < 12; ++stop) {
    document.live->step_phase();
    settle(document);
    at.gui.frame(3);
    const ElementPlace place = *document.live->element().place();
    for (int rank = 0; rank < 2; ++rank) {
      const std::string holds = gradient_content(*document.events, rank, place.global_bucket,
                                                 rank == place.owner, document.events->range().end_ns);
      REQUIRE(!holds.empty());
      INFO(screen_text());
      CHECK(on_screen(holds));
    }
  }
}

TEST_CASE("behind the last explained iteration a scenario says so, and stops at the same place again") {
  const Scenario& scenario = find_scenario("tied-embedding");
  Document document = live_document(resolve(scenario.config), live_run_options(scenario));
  const auto panel = make_control_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  const auto step = [&] {
    settle(document);
    gui.frame(2);
    for (const trace::Event& event : document.live->held()) {
      if (scenario.breakpoints[0].matches(event)) return event.step;
    }
    return -1;
  };
  for (int stop = 0; stop < 2; ++stop) {
    CHECK(step() == 2);
    CHECK(!on_screen("The explanation ends here"));
    gui.key('R');
  }
  for (int stop = 0; stop < 4; ++stop) {
    CHECK(step() == 3 + stop / 2);
    CHECK(on_screen("The explanation ends here. R stops at the same place in every iteration."));
    CHECK(on_screen("zero1_viz run --scenario tied-embedding"));
    gui.key('R');
  }
}

TEST_CASE("where nothing is left to stop at, a scenario says that too") {
  LiveRunOptions options = live_run_options(find_scenario("exposed-wait"));
  options.explained_step = 3;
  Document document = live_document(small_run(2), std::move(options));  // of three iterations
  const auto panel = make_control_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  while (!document.live->over()) {
    take_over(document);
    document.live->run();
  }
  take_all(document);
  gui.frame(2);
  CHECK(on_screen("No stop is left"));
}

TEST_CASE("single elements have their values printed, those of the tensors") {
  LivePanel at(make_ownership_panel(), 300, 1200, 600);
  Document& document = at.document;
  Gui& gui = at.gui;
  Selection selection;
  selection.param = 3;
  selection.element = 0;
  document.selection.set(selection);
  gui.frame(2);
  // Some height at which a click selects an element is that of the parameters.
  document.selection.clear();
  float y = 60;
  for (; y < 400 && !document.selection.element; y += 9) gui.click({640, y});
  REQUIRE(document.selection.element);
  y -= 9;
  CHECK(!on_screen("gradients"));
  for (int i = 0; i < 80; ++i) gui.wheel({640, y}, 1);
  gui.click({640, y});
  gui.frame(2);
  REQUIRE(document.selection.param);
  const ElementPlace place =
      place_of(*document.layout, {*document.selection.param, *document.selection.element});
  float value = 0;
  float gradient = 0;
  REQUIRE(document.live->read(0, [&](RankTrainer& trainer) {
    const ParamAndGradBuffer& buffer =
        *trainer.data_parallel().buffers()[static_cast<std::size_t>(place.buffer)];
    value = static_cast<float>(element_value(buffer.param_data(), place.in_world));
    gradient = static_cast<float>(element_value(buffer.grad_data(), place.in_world));
  }));
  INFO(screen_text());
  CHECK(on_screen("gradients"));
  for (const float number : {value, gradient}) {
    const bool whole = on_screen(fmt::format("{:.6g}", number));
    const bool brief = on_screen(fmt::format("{:.2g}", number));
    CHECK((whole || brief));
  }
}

TEST_CASE("what the last step has changed is marked on map, timeline and log") {
  Document document = paused_document(300);
  const Theme theme;
  for (const auto& make : {make_ownership_panel, make_timeline_panel, make_log_panel}) {
    const auto panel = make();
    CAPTURE(std::string(panel->title()));
    Gui gui(*panel, document, theme);
    document.change = {};
    gui.frame(3);
    const int unmarked = gui.triangles_coloured(theme.changed());
    // Not every step is about something that the panel shows.
    int marked = unmarked;
    for (int i = 0; i < 50 && marked <= unmarked; ++i) {
      document.live->step_bucket();
      settle(document);
      gui.frame(3);
      marked = gui.triangles_coloured(theme.changed());
    }
    CHECK(!document.change.empty());
    CHECK(marked > unmarked);
  }
}

TEST_CASE("a log of millions of rows is scrolled to every one of them") {
  constexpr int count = 1'500'000;
  Document document;
  document.info.ranks = 1;
  document.events = std::make_shared<EventIndex>(1);
  std::vector<trace::Event> events(count);
  for (int i = 0; i < count; ++i) {
    trace::Event& event = events[static_cast<std::size_t>(i)];
    event.kind = Kind::grad_ready;
    event.stream = trace::StreamId::host;
    event.begin_ns = event.end_ns = 1000LL * i;
  }
  document.events->push(events);
  document.events->absorb_all();
  const auto panel = make_log_panel();
  const Theme theme;
  Gui gui(*panel, document, theme);
  gui.frame(400);  // it lists some thousand events in each
  const auto at = [&](float y) {
    gui.click({25, y});
    REQUIRE(document.selection.event);
    return document.events->event(*document.selection.event).end_ns / 1000;
  };
  // It follows the newest; rows lie one below the other without a gap or a repetition.
  const float row_px = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  float bottom = 797;
  while (bottom > 400 && !document.selection.event) gui.click({25, bottom -= 3});
  CHECK(at(bottom) == count - 1);
  for (int up = 1; up < 20; ++up) CHECK(at(bottom - row_px * static_cast<float>(up)) == count - 1 - up);
  const std::int64_t before = at(400);
  gui.wheel({600, 400}, 1);
  CHECK(at(400) == before - 3);
  // What is selected elsewhere comes into view.
  Selection selection;
  for (const std::int64_t wanted : {17LL, 1'414'213LL}) {
    CAPTURE(wanted);
    selection.event = *document.events->last_at(1000 * wanted);
    document.selection.set(selection);
    gui.frame(2);
    bool seen = false;
    for (float y = 60; y < 790 && !seen; y += row_px) {
      gui.click({25, y});
      seen = document.selection.event == selection.event;
    }
    CHECK(seen);
  }
  // The bar leads everywhere.
  gui.drag({1185, 770}, {1185, 20});
  CHECK(at(400) < 100);
  gui.key(ImGuiKey_PageDown);
  gui.key(ImGuiKey_PageDown);
  CHECK(at(400) > 60);
}
