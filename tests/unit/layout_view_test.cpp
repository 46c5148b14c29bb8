// What people see of a layout: tables and the ownership map.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/layout/json.h"
#include "core/layout/svg.h"
#include "core/layout/svg_tiles.h"
#include "core/layout/table.h"
#include "tests/support/message.h"

using namespace zero1;
using zero1::test::contains;

namespace {

constexpr std::int64_t largest_bucket = std::int64_t{1} << 62;

Layout golden(const std::string& file, const std::string& name, int dp_size = 0,
              std::optional<std::int64_t> bucket_size = std::nullopt) {
  const std::string path = std::string(ZERO1_GOLDEN_DIR "/") + file;
  for (LayoutFile::Entry& entry : parse_layout_file(read_file(path), path).entries) {
    LayoutCase& found = entry.layout_case;
    if (found.name != name) continue;
    if (dp_size > 0) found.options.dp_size = dp_size;
    if (bucket_size) found.options.bucket_size_elems = bucket_size;
    return compute_layout(found.params, found.options);
  }
  FAIL("no golden case of this name: " << name);
  return {};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Every element is closed, in the right order, and text holds no raw markup: a well-formed document.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] == '&' && xml.compare(at, 5, "&amp;") != 0 && xml.compare(at, 4, "&lt;") != 0 &&
        xml.compare(at, 4, "&gt;") != 0 && xml.compare(at, 6, "&quot;") != 0) {
      return false;
    }
    if (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n') return false;
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos || xml.find('<', at + 1) < end) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty();
}

std::vector<ParamSpec> two_params() {
  return {{"w.weight", {5, 26}, DType::bf16, false, false},
          {"<b> & \"c\"\x01", {}, DType::bf16, false, false}};
}

LayoutOptions two_ranks() {
  LayoutOptions options;
  options.dp_size = 2;
  return options;
}

}  // namespace

TEST_CASE("the table says who owns what") {
  const Layout layout = compute_layout(two_params(), two_ranks());
  const std::string table = layout_table(layout, "tiny");
  CHECK(contains(table, "tiny: 2 parameters, 131 elements in 1 buffer, 1 bucket\n"));
  CHECK(contains(table, "Buffer 0: bfloat16 parameters, float32 gradients, 2 ranks\n"));
  CHECK(contains(table, "256 elements, of which 125 (48.83%) are padding; 1 bucket; each rank owns 128\n"));
  CHECK(contains(table, "[0, 256)"));
  CHECK(contains(table, "w.weight"));
  CHECK(contains(table, "5×26"));
  CHECK(contains(table, "[64, 194)"));
  CHECK(contains(table, "0-1"));
  CHECK(contains(table, "scalar"));
  CHECK_FALSE(contains(table, "more"));
}

TEST_CASE("long tables are cut and say so") {
  const Layout layout = golden("layout_large.json", "gpt3-175b-dp1024");
  CHECK(contains(layout_table(layout, ""), "… 121 more buckets (--all shows them)"));
  CHECK(contains(layout_table(layout, ""), "… 1,132 more parameters (--all shows them)"));
  CHECK(contains(rank_table(layout, 1023, 3), "more rows"));
  const std::string all = layout_table(layout, "", SIZE_MAX);
  CHECK_FALSE(contains(all, "--all"));
  CHECK(count(all, "\n") > 1156 + 145);
}

TEST_CASE("one rank, one parameter") {
  const Layout layout = compute_layout(two_params(), two_ranks());
  CHECK(contains(rank_table(layout, 1), "rank 1 owns 128 elements, 62 of them padding"));
  CHECK(contains(rank_table(layout, 1), "[128, 194)"));
  CHECK(contains(rank_table(layout, 1), "[64, 130)"));
  CHECK_THROWS_AS(rank_table(layout, 2), InputError);
  CHECK_THROWS_AS(rank_table(layout, -1), InputError);
  CHECK_THROWS_AS(rank_table(compute_layout({}, {}), 0), InputError);
  const std::string where = param_table(layout, 0);
  CHECK(contains(where, "w.weight (bfloat16, 5×26, 130 elements)"));
  CHECK(contains(where, "held by 2 ranks"));
  CHECK(contains(where, "49.23%"));
  CHECK(contains(where, "50.77%"));
  const Layout experts = golden("layout_small.json", "moe-tiny-dp4-edp2");
  CHECK(contains(rank_table(experts, 3), "has no rank 3"));
}

TEST_CASE("the ownership map is well-formed and shows every bucket, rank and parameter") {
  const Layout layout = golden("layout_small.json", "gpt-tiny-dp4");
  const std::string svg = ownership_svg(layout, {"tiny <&> map"});
  CHECK(well_formed(svg));
  CHECK(contains(svg, "tiny &lt;&amp;&gt; map"));
  for (std::size_t k = 0; k < 8; ++k) CHECK(contains(svg, ">bucket " + std::to_string(k)));
  CHECK(count(svg, ">rank 2</text>") == 8 + 1);  // one shard per bucket, and the legend
  CHECK(contains(svg, "embedding.word_embeddings.weight"));
  CHECK(contains(svg, "padding"));
}

TEST_CASE("names cannot break the picture, and odd layouts can be drawn") {
  CHECK(well_formed(ownership_svg(compute_layout(two_params(), two_ranks()))));
  CHECK(well_formed(ownership_svg(compute_layout({}, {}))));
  CHECK(well_formed(ownership_svg(compute_layout({{"none", {0}}}, two_ranks()))));
  // Two code points that UTF-8 can write and XML cannot hold.
  const std::string odd = ownership_svg(compute_layout({{"a\xEF\xBF\xBE-\xEF\xBF\xBF", {100}}}, two_ranks()));
  CHECK(contains(odd, "a\uFFFD-\uFFFD"));
  CHECK_FALSE(contains(odd, "\xEF\xBF\xBE"));
  CHECK_FALSE(contains(odd, "\xEF\xBF\xBF"));
  CHECK(well_formed(ownership_svg(golden("layout_small.json", "moe-tiny-dp4-edp2"), {"", 10})));
  CHECK(well_formed(ownership_svg(golden("layout_small.json", "gpt-tiny-shared-embedding", max_dp_size))));
}

TEST_CASE("large layouts give small pictures") {
  constexpr std::size_t bound_bytes = 3'000'000;
  const std::string by_default = ownership_svg(golden("layout_large.json", "gpt3-175b-dp1024"));
  CHECK(well_formed(by_default));
  CHECK(by_default.size() < bound_bytes);
  CHECK(ownership_svg(golden("layout_large.json", "gpt3-175b-dp1024", 1024, 1)).size() < bound_bytes);
  CHECK(ownership_svg(golden("layout_large.json", "gpt3-175b-dp1024", max_dp_size, largest_bucket)).size() <
        bound_bytes);
  std::vector<ParamSpec> many(20'000);
  for (std::size_t i = 0; i < many.size(); ++i)
    many[i] = {"p" + std::to_string(i), {static_cast<std::int64_t>(1 + i % 77)}};
  LayoutOptions one_each = two_ranks();
  one_each.bucket_size_elems = 1;
  const std::string merged = ownership_svg(compute_layout(many, one_each));
  CHECK(well_formed(merged));
  CHECK(merged.size() < bound_bytes);
}

TEST_CASE("tiles keep order and scale, stay on their lines and leave no bucket out") {
  for (const char* name :
       {"gpt2-124m-dp8-default-bucket", "llama-7b-dp64", "gpt3-175b-dp1024", "moe-8x-dp32-edp4"}) {
    CAPTURE(name);
    for (const BufferLayout& buffer : golden("layout_large.json", name).buffers) {
      constexpr double line_px = 777;
      const svg::TilePlan plan = svg::plan_tiles(buffer, line_px);
      int bucket = 0;
      double scale = 0;
      for (std::size_t i = 0; i < plan.tiles.size(); ++i) {
        const svg::Tile& tile = plan.tiles[i];
        CHECK(tile.first_bucket == bucket);
        bucket = tile.end_bucket;
        CHECK(tile.line < plan.lines);
        CHECK(tile.x_px + tile.width_px <= line_px + 1e-6);
        if (i > 0 && tile.line == plan.tiles[i - 1].line) {
          CHECK(tile.x_px > plan.tiles[i - 1].x_px + plan.tiles[i - 1].width_px);
        }
        if (tile.width_px > 10 && scale == 0) scale = tile.px_per_elem();
        if (tile.width_px > 10) CHECK(tile.px_per_elem() == doctest::Approx(scale));
      }
      CHECK(bucket == static_cast<int>(buffer.buckets.size()));
    }
  }
}
