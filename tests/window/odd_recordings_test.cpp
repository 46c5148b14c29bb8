// Recordings at the ends of what there is: no event, one, one rank, hundreds of ranks, a hundred thousand
// buckets, names that are no names.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/layout/json.h"
#include "core/trace/file_writer.h"
#include "tests/gui/screen_text.h"
#include "tests/gui/timeline_random_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/window/run_info.h"
#include "tests/window/shown_document.h"

using namespace zero1;
using namespace zero1::viz;
using viz::test::info_of;
using viz::test::on_screen;
using viz::test::ShownDocument;

namespace {

/// `params` of `elems` elements each, in a bucket of its own where that is the bucket size.
LayoutCase plain_case(std::vector<std::string> names, std::int64_t elems, int dp) {
  LayoutCase c;
  for (std::string& name : names) c.params.push_back({std::move(name), {elems}, DType::fp32, false, false});
  c.options.dp_size = c.options.expert_dp_size = dp;
  c.options.bucket_size_elems = elems;
  return c;
}

std::vector<std::string> numbered(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("p" + std::to_string(i));
  return names;
}

Document recorded(const zero1::test::TemporaryFolder& folder, const trace::RunInfo& info,
                  const std::vector<trace::Event>& events) {
  trace::FileWriter writer(folder / "odd.trace", info, 0);
  constexpr std::size_t most = 16'384;
  for (std::size_t at = 0; at < events.size(); at += most)
    writer.write_chunk(std::span(events).subspan(at, std::min(most, events.size() - at)), 0);
  writer.close(0);
  return open_recording(folder / "odd.trace");
}

trace::Event ready(int rank, int bucket, int param, std::int64_t at_ns) {
  trace::Event event;
  event.kind = trace::Kind::grad_ready;
  event.stream = trace::StreamId::host;
  event.rank = static_cast<std::int16_t>(rank);
  event.bucket = bucket;
  event.param = param;
  event.step = 1;
  event.begin_ns = event.end_ns = at_ns;
  return event;
}

/// Every panel, selection and key; what is drawn stays within its bound. `brief`: a document whose frames
/// take long is spared some.
void use_everything(ShownDocument& shown, bool brief = false) {
  constexpr int most_vertices = 4 * 20'000 + 40'000;  // the timeline's bound, and all other panels
  Document& document = shown.shell->document();
  Selection last;
  last.rank = document.info.ranks - 1;
  if (!document.info.buckets.empty()) last.bucket = static_cast<int>(document.info.buckets.size()) - 1;
  if (!document.info.params.empty()) last.param = static_cast<int>(document.info.params.size()) - 1;
  last.element = last.param;
  last.step = 1;
  Selection event;
  event.event = 0;
  Selection nowhere = last;
  nowhere.rank = 1'000'000;
  nowhere.bucket = nowhere.param = nowhere.step = 1'000'000'000;
  nowhere.event = nowhere.element = 1'000'000'000'000;
  std::vector<Selection> selections{last, nowhere};
  if (!brief) selections.insert(selections.end(), {event, Selection()});
  for (const Selection& selection : selections) {
    document.selection.set(selection);
    for (const char* tab : {"Element", "Overlap", "Memory", "Metrics", "Event log", "Settings"}) {
      shown.shell->show_tab(tab);
      shown.gui.frame(3);
      CHECK(shown.gui.vertices() > 100);
      CHECK(shown.gui.vertices() < most_vertices);
    }
    for (const char panel : {'1', '2', '3', '8'}) {
      if (brief && panel == '3') continue;
      shown.gui.ctrl_key(panel);
      for (const char key : {'F', 'L', 'L', 'M', 'T', 'C', '[', ']', ',', '.'}) shown.gui.key(key);
      for (const input::NamedKey key : {ImGuiKey_DownArrow, ImGuiKey_UpArrow, ImGuiKey_LeftArrow,
                                        ImGuiKey_RightArrow, ImGuiKey_PageDown, ImGuiKey_Home, ImGuiKey_End})
        shown.gui.key(key);
    }
  }
  shown.gui.wheel({300, 200}, 40);
  shown.gui.wheel({300, 200}, -80);
  CHECK(shown.gui.vertices() < most_vertices);
}

void use_in_all_sizes(const zero1::test::TemporaryFolder& folder, const trace::RunInfo& info,
                      const std::vector<trace::Event>& events) {
  for (const ImVec2 size : {ImVec2(1600, 900), ImVec2(400, 300), ImVec2(200, 200)}) {
    CAPTURE(size.x);
    Preferences preferences;
    preferences.dark = size.x > 1000;
    ShownDocument shown(recorded(folder, info, events), preferences, size.x, size.y);
    use_everything(shown);
  }
}

}  // namespace

TEST_CASE("a recording without events, or with one, is shown for what it is") {
  const zero1::test::TemporaryFolder folder;
  const trace::RunInfo info = info_of(plain_case({"weight", "bias"}, 120, 1));
  for (int count : {0, 1}) {
    CAPTURE(count);
    std::vector<trace::Event> events;
    if (count > 0) events.push_back(ready(0, 0, 1, 0));
    {
      ShownDocument shown(recorded(folder, info, events));
      shown.shell->show_tab("Event log");
      shown.gui.frame(3);
      CHECK(on_screen(count == 1 ? "1 event" : "0 events"));
      CHECK(!on_screen("1 events"));
      INFO(viz::test::screen_text());
      CHECK(on_screen("weight"));
    }
    use_in_all_sizes(folder, info, events);
  }
}

TEST_CASE("a recording that knows neither ranks nor names nor a layout is shown") {
  const zero1::test::TemporaryFolder folder;
  trace::RunInfo info;
  info.ranks = 1;
  use_in_all_sizes(folder, info, {});
  std::vector<trace::Event> events(3);
  for (trace::Event& event : events) event.kind = trace::Kind::forward;
  use_in_all_sizes(folder, info, events);
}

TEST_CASE("one rank, and hundreds of ranks") {
  const zero1::test::TemporaryFolder folder;
  for (const int ranks : {1, 300}) {
    CAPTURE(ranks);
    trace::RunInfo info = info_of(plain_case(numbered(viz::test::random_params), 600, ranks));
    info.layers = viz::test::random_trace_info(ranks).layers;
    const std::vector<trace::Event> events = viz::test::random_trace(ranks, 2, 31);
    {
      ShownDocument shown(recorded(folder, info, events));
      Selection selection;
      selection.rank = ranks - 1;
      shown.shell->document().selection.set(selection);
      shown.gui.frame(3);
      CHECK(on_screen("rank " + std::to_string(ranks - 1)));
      CHECK(on_screen("8 of 300 ranks") == (ranks == 300));
      use_everything(shown, true);
    }
    if (ranks == 1) use_in_all_sizes(folder, info, events);
  }
}

TEST_CASE("a hundred thousand buckets") {
  constexpr int count = 100'000;
  const zero1::test::TemporaryFolder folder;
  const trace::RunInfo info = info_of(plain_case(numbered(count), 8, 4));
  REQUIRE(info.buckets.size() == count);
  std::vector<trace::Event> events;
  for (int i = 0; i < count; ++i) events.push_back(ready(i % 4, i, count - 1 - i, 100LL * i));
  ShownDocument shown(recorded(folder, info, events));
  REQUIRE(shown.shell->document().error == "");
  CHECK(on_screen("buckets"));
  use_everything(shown, true);
  Selection selection;
  selection.bucket = 77'777;
  shown.shell->document().selection.set(selection);
  shown.gui.frame(3);
  CHECK(on_screen("77777"));
}

TEST_CASE("names are data: empty, endless, with signs that mean something elsewhere") {
  const zero1::test::TemporaryFolder folder;
  const std::vector<std::string> names{std::string(5000, 'x'), "%s%n%d",   "##",       "a##b", "###c",
                                       "two\nlines",           "tab\tbed", "same.same"};
  trace::RunInfo info = info_of(plain_case(names, 50, 2));
  std::vector<trace::Event> events;
  for (int i = 0; i < static_cast<int>(names.size()); ++i) events.push_back(ready(i % 2, i, i, 100 * i));
  use_in_all_sizes(folder, info, events);
  // Without a layout nobody has checked them.
  info.layout_json = "null";
  info.params[0] = "";
  info.params[1] = "\xff\xfe";
  info.params[2] = info.params[3];
  use_in_all_sizes(folder, info, events);
}
