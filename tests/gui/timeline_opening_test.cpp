// What the timeline shows when a document is opened.
#include <doctest/doctest.h>

#include "tests/gui/gui_test.h"
#include "tests/gui/screen_text.h"
#include "tests/gui/timeline_random_trace.h"
#include "viz/panels/timeline_panel.h"

namespace zero1::viz {

using trace::Kind;

TEST_CASE("opened at an event, the timeline shows its iteration with a margin") {
  Document document;
  document.info = test::random_trace_info(2);
  document.events = std::make_shared<EventIndex>(2);
  document.events->push(test::random_trace(2, 20, 21));
  document.events->absorb();
  const auto found = document.events->first_after(-1, {.kind = Kind::grad_norm, .step = 3});
  REQUIRE(found);
  Selection at;
  at.event = *found;
  document.selection.set(at);
  const trace::Interval step = document.events->find_step(3)->when;
  const auto length = static_cast<double>(step.end_ns - step.start_ns);
  TimelinePanel panel;
  const Theme theme;
  test::Gui gui(panel, document, theme);
  gui.frame(3);
  CHECK(panel.view().start_ns() <= static_cast<double>(step.start_ns) - 0.05 * length);
  CHECK(panel.view().end_ns() >= static_cast<double>(step.end_ns) + 0.05 * length);
  CHECK(panel.view().span_ns() < 2 * length);
  // What is selected later leaves the view where it is, if it can be seen.
  const double span = panel.view().span_ns();
  at.event = *document.events->next(*found);
  document.selection.set(at);
  gui.frame(2);
  CHECK(panel.view().span_ns() == span);
}

TEST_CASE("a first iteration that prepares is left out at first, and the strip says so") {
  const auto recorded = [](std::int64_t first_ns, int steps) {
    Document document;
    document.info.ranks = 1;
    document.events = std::make_shared<EventIndex>(1);
    std::int64_t now_ns = 0;
    for (int step = 1; step <= steps; ++step) {
      trace::Event event;
      event.kind = Kind::step;
      event.stream = trace::StreamId::compute;
      event.step = step;
      event.begin_ns = now_ns;
      event.end_ns = now_ns += step == 1 ? first_ns : 20'000'000 + step;
      document.events->push({&event, 1});
    }
    document.events->absorb();
    return document;
  };
  for (const std::int64_t first_ns : {600'000'000, 21'000'000}) {
    for (const int steps : {1, 2, 9}) {
      CAPTURE(first_ns);
      CAPTURE(steps);
      Document document = recorded(first_ns, steps);
      const bool left_out = steps > 1 && first_ns > 100'000'000;
      TimelinePanel panel;
      const Theme theme;
      test::Gui gui(panel, document, theme);
      gui.frame(2);
      CHECK((panel.view().start_ns() > 0.9 * static_cast<double>(first_ns)) == left_out);
      CHECK(test::on_screen("iteration 1 also prepares") == left_out);
      gui.click({panel.lanes_box().max.x - 5, panel.lanes_box().max.y - 3});
      gui.key(ImGuiKey_Home);
      CHECK(panel.view().start_ns() <= 0);
      CHECK(panel.view().end_ns() >= static_cast<double>(document.events->range().end_ns));
    }
  }
}

}  // namespace zero1::viz
