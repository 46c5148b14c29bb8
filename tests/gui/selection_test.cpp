// What is selected is seen in every panel; memory, with and without a run.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>

#include "tests/gui/live_panel.h"
#include "tests/gui/screen_text.h"
#include "viz/model/exploration.h"

using namespace zero1;
using namespace zero1::viz;
using namespace zero1::viz::test;

namespace {

/// Of all that is drawn: places, letters and colours.
std::uint64_t drawn() {
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211U; };
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int l = 0; l < data.CmdListsCount; ++l) {
    for (const ImDrawVert& corner : data.CmdLists[l]->VtxBuffer) {
      add(static_cast<std::uint64_t>(static_cast<std::int64_t>(corner.pos.x * 16)));
      add(static_cast<std::uint64_t>(static_cast<std::int64_t>(corner.pos.y * 16)));
      add(static_cast<std::uint64_t>(static_cast<std::int64_t>(corner.uv.x * 65536)));
      add(corner.col);
    }
  }
  return hash;
}

struct Look {
  std::unique_ptr<Panel> (*panel)();
  std::function<void(Selection&)> select;
};

}  // namespace

TEST_CASE("a rank, bucket, parameter, element or iteration that is selected anywhere is seen in each panel") {
  Document document = live_document(small_run(2), {});
  take_all(document);
  const auto rank = [](Selection& s) { s.rank = 1; };
  const auto bucket = [](Selection& s) { s.bucket = 1; };
  const auto step = [](Selection& s) { s.step = 2; };
  const auto param = [](Selection& s) { s.param = 5; };
  const auto element = [](Selection& s) { s.param = 5, s.element = 3; };
  const std::vector<Look> looks{
      {make_ownership_panel, rank},    {make_ownership_panel, bucket}, {make_ownership_panel, param},
      {make_ownership_panel, element}, {make_timeline_panel, rank},    {make_timeline_panel, bucket},
      {make_timeline_panel, step},     {make_element_panel, param},    {make_element_panel, element},
      {make_overlap_panel, rank},      {make_overlap_panel, bucket},   {make_overlap_panel, step},
      {make_memory_panel, rank},       {make_metrics_panel, step},     {make_log_panel, rank},
      {make_log_panel, bucket},        {make_log_panel, step},         {make_log_panel, param}};
  const Theme theme;
  for (const Look& look : looks) {
    const auto panel = look.panel();
    document.selection.clear();
    Gui gui(*panel, document, theme);
    gui.frame(8);
    const std::uint64_t before = drawn();
    gui.frame(2);
    REQUIRE(drawn() == before);  // nothing moves by itself
    Selection selection;
    look.select(selection);
    document.selection.set(selection);
    gui.frame(3);
    INFO(panel->title() << ", look " << (&look - looks.data()));
    CHECK(drawn() != before);
  }
}

TEST_CASE("memory tells of activations where a run has told of them, and of plain data parallelism first") {
  const Theme theme;
  const auto panel = make_memory_panel();
  {
    Document document;
    document.exploration = std::make_shared<Exploration>();
    document.layout = document.exploration->layout();
    Gui gui(*panel, document, theme);
    gui.frame(3);
    const std::string text = screen_text();
    CHECK(text.find("\nactivations\n") == std::string::npos);
    CHECK(text.find("\noptimizer\n") != std::string::npos);
    CHECK(text.find("without activations") != std::string::npos);
    CHECK(text.find("plain data parallel") < text.find("ZeRO-1, a rank"));
  }
  Document document = live_document(small_run(3), {});
  take_all(document);
  Gui gui(*panel, document, theme);
  gui.frame(3);
  const std::string text = screen_text();
  INFO(text);
  CHECK(text.find("activations\n") != std::string::npos);
  CHECK(text.find("plain data parallel") < text.find("rank 0"));
  CHECK(text.find("rank 2") != std::string::npos);
}
