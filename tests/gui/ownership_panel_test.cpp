// The ownership map, driven by mouse and keys.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "core/base/units.h"
#include "core/layout/owners.h"
#include "tests/gui/gui_test.h"
#include "tests/gui/screen_text.h"
#include "viz/model/event_index.h"
#include "viz/model/exploration.h"
#include "viz/model/ownership_map.h"

using namespace zero1;
using namespace zero1::viz;
using zero1::viz::test::on_screen;

namespace {

std::shared_ptr<const Layout> tiny(int dp) {
  Exploration exploration;
  LayoutOptions options = exploration.options();
  options.dp_size = dp;
  exploration.set_options(options);
  return exploration.layout();
}

/// The panel in a window of 1200 × 500, and where its rows lie: found by clicking, since the panel alone
/// knows them.
struct Fixture {
  Document document;
  Theme theme;
  std::unique_ptr<Panel> panel = make_ownership_panel();
  test::Gui gui;

  explicit Fixture(std::shared_ptr<const Layout> layout, float width = 1200)
      : gui(*panel, (document.layout = std::move(layout), document), theme, width, 500) {
    gui.frame(3);
  }

  /// Clicks at a height and tells what has been selected there.
  Selection click(float x, float y) {
    document.selection.clear();
    gui.click({x, y});
    return document.selection;
  }

  /// The middle of the rows in which a click selects what `is` looks for.
  template <class Is>
  float row(Is is) {
    float first = 0;
    float last = 0;
    for (float y = 30; y < 490; y += 7) {
      if (!is(click(400, y))) continue;
      if (first == 0) first = y;
      last = y;
    }
    REQUIRE(first > 0);
    return (first + last) / 2;
  }
  float params_row() {
    return row([](const Selection& s) { return s.param.has_value(); });
  }
  float owners_row() {
    return row([](const Selection& s) { return s.rank.has_value() && !s.param; });
  }
  float buckets_row() {
    return row([](const Selection& s) { return s.bucket.has_value() && !s.rank && !s.param; });
  }
};

}  // namespace

TEST_CASE("clicks select buckets, owners, parameters and elements, left to right as they lie") {
  Fixture f(tiny(4));
  const OwnershipMap map(f.document.layout);
  const float params = f.params_row();
  const float owners = f.owners_row();
  const float buckets = f.buckets_row();
  CHECK(buckets < params);
  CHECK(params < owners);

  int bucket = 0;
  int rank_changes = 0;
  int last_rank = -1;
  std::int64_t last_axis = -1;
  for (float x = 140; x < 1180; x += 9) {
    const Selection header = f.click(x, buckets);
    REQUIRE(header.bucket);
    CHECK(*header.bucket >= bucket);
    bucket = *header.bucket;
    const Selection owner = f.click(x, owners);
    REQUIRE(owner.rank);
    CHECK(owner.bucket == header.bucket);
    rank_changes += *owner.rank != last_rank ? 1 : 0;
    last_rank = *owner.rank;
    const Selection param = f.click(x, params);
    if (!param.param) continue;  // padding
    const std::int64_t axis = map.param_axis(*param.param).start + param.element.value();
    CHECK(axis > last_axis);
    last_axis = axis;
    // What is under the click by the map's numbers is what the owners' band says there.
    CHECK(map.place_at(axis).rank == *owner.rank);
    CHECK(map.place_at(axis).bucket == *owner.bucket);
  }
  CHECK(bucket == f.document.layout->bucket_count() - 1);
  CHECK(rank_changes == 4 * f.document.layout->bucket_count());
}

TEST_CASE("the wheel zooms at the cursor down to single elements, F shows everything again") {
  Fixture f(tiny(2));
  const float params = f.params_row();
  const Selection before = f.click(640, params);
  REQUIRE(before.param);
  const OwnershipMap map(f.document.layout);
  const std::int64_t wanted = map.param_axis(*before.param).start + *before.element;
  const std::int64_t px_elems = map.numel() / 1000;
  for (int i = 0; i < 80; ++i) f.gui.wheel({640, params}, 1);
  const Selection after = f.click(640, params);
  REQUIRE(after.param);
  const std::int64_t now = map.param_axis(*after.param).start + *after.element;
  CHECK(std::abs(now - wanted) <= px_elems + 1);
  // Neighbouring elements are far apart on screen now.
  const Selection same = f.click(642, params);
  const Selection next = f.click(640 + 200, params);
  REQUIRE(next.param);
  CHECK(std::abs(*same.element - *after.element) <= 1);
  CHECK(std::abs(map.param_axis(*next.param).start + *next.element - now) <= 3);
  f.gui.key('F');
  const Selection again = f.click(640, params);
  REQUIRE(again.param);
  CHECK(std::abs(map.param_axis(*again.param).start + *again.element - wanted) <= px_elems + 1);
}

TEST_CASE("under the mouse a parameter tells its four ranges on every rank that has some of it") {
  Fixture f(tiny(4));
  const float params = f.params_row();
  int split = 0;
  for (float x = 150; x < 1180; x += 50) {
    const Selection under = f.click(x, params);
    if (!under.param) continue;
    f.gui.frame();
    const Layout& layout = *f.document.layout;
    CAPTURE(layout.specs[static_cast<std::size_t>(*under.param)].name);
    CHECK(on_screen(layout.specs[static_cast<std::size_t>(*under.param)].name));
    CHECK(on_screen("gbuf_world_in_bucket"));
    const Range owners = owners_of(layout, *under.param);
    split += owners.size() > 1 ? 1 : 0;
    CHECK(on_screen(owners.size() > 1 ? fmt::format("split among {} ranks", owners.size())
                                      : fmt::format("rank {} owns all of it", owners.start)));
    for (std::int64_t rank = owners.start; rank < owners.end; ++rank) {
      const ParamShard shard = param_shard(layout, *under.param, static_cast<int>(rank));
      for (const Range& range :
           {shard.param_range, shard.gbuf_local, shard.gbuf_world_in_bucket, shard.gbuf_world})
        CHECK(on_screen(fmt::format("[{}, {})", format_count(range.start), format_count(range.end))));
    }
  }
  CHECK(split > 0);
}

TEST_CASE("everything that a click selects, keys select too") {
  Fixture f(tiny(4));
  const OwnershipMap map(f.document.layout);
  f.click(640, f.params_row());  // the panel has the keyboard
  f.document.selection.clear();
  const Selection& selection = f.document.selection;
  f.gui.key(ImGuiKey_DownArrow);
  CHECK(selection.rank == 0);
  for (int i = 0; i < 5; ++i) f.gui.key(ImGuiKey_DownArrow);
  CHECK(selection.rank == 3);
  f.gui.key(ImGuiKey_UpArrow);
  CHECK(selection.rank == 2);
  f.gui.key(ImGuiKey_PageDown);
  f.gui.key(ImGuiKey_PageDown);
  CHECK(selection.bucket == 1);
  f.gui.key(ImGuiKey_PageUp);
  CHECK(selection.bucket == 0);
  CHECK(selection.rank == 2);

  // Every parameter once, in the order of the buffer.
  f.gui.shift(true);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < f.document.layout->specs.size(); ++i) {
    f.gui.key(ImGuiKey_RightArrow);
    REQUIRE(selection.param);
    CHECK(map.param_axis(*selection.param).start > last);
    CHECK(selection.bucket == map.param_bucket(*selection.param));
    last = map.param_axis(*selection.param).start;
  }
  f.gui.key(ImGuiKey_LeftArrow);
  CHECK(map.param_axis(*selection.param).start < last);
  f.gui.shift(false);
  CHECK(selection.element == 0);
  f.gui.ctrl(true);
  f.gui.key(ImGuiKey_RightArrow);
  f.gui.key(ImGuiKey_RightArrow);
  f.gui.key(ImGuiKey_LeftArrow);
  f.gui.ctrl(false);
  CHECK(selection.element == 1);

  // What the mouse would be told of it.
  f.gui.move({-1, -1});
  CHECK(!on_screen("gbuf_world_in_bucket"));
  f.gui.key(ImGuiKey_Enter);
  CHECK(on_screen("gbuf_world_in_bucket"));
  CHECK(on_screen(f.document.layout->specs[static_cast<std::size_t>(*selection.param)].name));
  CHECK(on_screen("here: element 1 ="));
  f.gui.key(ImGuiKey_Escape);
  CHECK(!on_screen("gbuf_world_in_bucket"));
  f.gui.key(ImGuiKey_PageUp);  // a bucket
  f.gui.key(ImGuiKey_Enter);
  CHECK(on_screen("elements of padding"));
  f.gui.move({500, 20});
  CHECK(!on_screen("elements of padding"));
}

TEST_CASE("dragging pans, and selects nothing") {
  Fixture f(tiny(2));
  const float params = f.params_row();
  for (int i = 0; i < 12; ++i) f.gui.wheel({640, params}, 1);
  const OwnershipMap map(f.document.layout);
  const Selection here = f.click(700, params);
  REQUIRE(here.param);
  f.document.selection.clear();
  f.gui.drag({700, params}, {500, params});
  CHECK_FALSE(f.document.selection.param);
  CHECK_FALSE(f.document.selection.bucket);
  const Selection moved = f.click(500, params);
  REQUIRE(moved.param);
  CHECK(moved.param == here.param);
  CHECK(std::abs(*moved.element - *here.element) <= map.numel() / 5000);
}

TEST_CASE("a search goes to the parameter, and what others select comes into view") {
  Fixture f(tiny(4));
  const float params = f.params_row();
  f.gui.key('/');
  f.gui.frame(2);
  f.gui.type("h.2.ln_1.bias");
  f.gui.key(ImGuiKey_Enter);
  const auto& specs = f.document.layout->specs;
  REQUIRE(f.document.selection.param);
  CHECK(specs[static_cast<std::size_t>(*f.document.selection.param)].name == "h.2.ln_1.bias");
  const OwnershipMap map(f.document.layout);
  CHECK(f.document.selection.bucket == map.param_bucket(*f.document.selection.param));
  // It was a pixel wide; now it can be clicked.
  f.gui.frame(2);
  const int wanted = *f.document.selection.param;
  bool clicked = false;
  for (float x = 130; x < 1190 && !clicked; x += 6) clicked = f.click(x, params).param == wanted;
  CHECK(clicked);

  Selection elsewhere;
  elsewhere.param = 0;  // wte, at the other end
  elsewhere.element = 5;
  f.document.selection.set(elsewhere);
  f.gui.frame(2);
  bool seen = false;
  for (float x = 130; x < 1190 && !seen; x += 6) seen = f.click(x, params).param == 0;
  CHECK(seen);
}

TEST_CASE("owners are drawn in their ranks' colours, and a selected rank stands out") {
  Fixture f(tiny(4));
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    // Two triangles per bucket's shard.
    CHECK(f.gui.triangles_coloured(f.theme.rank(rank, 4)) >= 2 * f.document.layout->bucket_count());
  }
  Selection rank;
  rank.rank = 2;
  f.document.selection.set(rank);
  f.gui.frame(2);
  CHECK(f.gui.triangles_coloured(f.theme.rank(2, 4)) > 0);
  CHECK(f.gui.triangles_coloured(f.theme.rank(1, 4)) == 0);
}

TEST_CASE("without the distributed optimizer no rank is shown as the owner of a part") {
  Fixture sharded(tiny(4));
  CHECK(on_screen("rank 2"));
  CHECK(!on_screen("every rank"));
  Document document;
  document.layout = tiny(4);
  document.info.config_json = R"({"use_distributed_optimizer": false})";
  const Theme theme;
  const auto panel = make_ownership_panel();
  test::Gui gui(*panel, document, theme, 1200, 500);
  gui.frame(3);
  CHECK(on_screen("every rank"));
  CHECK(!on_screen("rank 2"));
  for (float y = 60; y < 400; y += 7) {
    gui.click({400, y});
    CHECK(!document.selection.rank);
    CHECK(!on_screen("owned by rank"));
    CHECK(!on_screen("split among"));
  }
}

TEST_CASE("states are drawn for the moment that is shown") {
  Fixture f(tiny(2));
  f.document.info.ranks = 2;
  f.document.events = std::make_shared<EventIndex>(2);
  std::vector<trace::Event> events;
  for (int bucket = 0; bucket < f.document.layout->bucket_count(); ++bucket) {
    for (const auto& [at, state] :
         {std::pair{100, trace::BucketState::accumulating}, std::pair{200, trace::BucketState::ready}}) {
      trace::Event event;
      event.kind = trace::Kind::bucket_state;
      event.detail = static_cast<std::uint8_t>(state);
      event.bucket = bucket;
      event.step = 1;
      event.begin_ns = event.end_ns = at;
      events.push_back(event);
    }
  }
  f.document.events->push(events);
  f.document.events->absorb_all();
  const ImU32 accumulating = IM_COL32(0xF7, 0xE3, 0xA1, 255);
  const ImU32 ready = IM_COL32(0xE6, 0x9F, 0x00, 255);
  f.document.moment = {false, 150};
  f.gui.frame(2);
  const int before = f.gui.triangles_coloured(accumulating);
  const int before_ready = f.gui.triangles_coloured(ready);
  f.document.moment = {false, 250};
  f.gui.frame(2);
  CHECK(f.gui.triangles_coloured(accumulating) < before);
  CHECK(f.gui.triangles_coloured(ready) > before_ready);
}

TEST_CASE("the map keeps its place in a window too narrow for the legend of states") {
  for (const float width : {460.0F, 560.0F, 700.0F, 860.0F, 1000.0F}) {
    CAPTURE(width);
    Fixture f(tiny(2), width);
    f.document.info.ranks = 2;
    f.document.events = std::make_shared<EventIndex>(2);
    f.gui.frame(3);
    const float params = f.params_row();
    CHECK(f.click(130, params).bucket == 0);
    CHECK(f.click(width - 20, params).bucket == f.document.layout->bucket_count() - 1);
  }
}

TEST_CASE("a huge layout is drawn with few vertices at any zoom") {
  std::vector<ParamSpec> specs;
  for (int p = 0; p < 100'000; ++p)
    specs.push_back({.name = "layer." + std::to_string(p), .shape = {1 + p % 977}});
  LayoutOptions options;
  options.dp_size = 1024;
  options.bucket_size_elems = 40'000;
  Fixture f(std::make_shared<const Layout>(compute_layout(std::move(specs), options)));
  int most = 0;
  for (int i = 0; i < 60; ++i) {
    f.gui.wheel({640, 200}, 1);
    most = std::max(most, f.gui.vertices());
  }
  CHECK(most < 60'000);
  f.gui.key('F');
  f.gui.frame(2);
  const std::clock_t begin = std::clock();
  constexpr int frames = 20;
  f.gui.frame(frames);
  const double ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  MESSAGE("a frame of 100,000 parameters on 1,024 ranks: " << ms / frames << " ms of one core");
}
