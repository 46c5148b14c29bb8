// 200 random layouts by Megatron-Core 0.16.1 (tests/golden/extra/README.md): odd rank counts, mixed dtypes,
// experts, runs of shared embeddings, bucket sizes from one element to more than there are.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.h"
#include "core/layout/json.h"

using namespace zero1;
using nlohmann::json;

TEST_CASE("random layouts equal Megatron-Core's, by rows where they are few and by digest elsewhere") {
  const std::string path = ZERO1_GOLDEN_DIR "/extra/layout_megatron.json";
  const LayoutFile file = parse_layout_file(read_file(path), path);
  int by_rows = 0;
  int by_digest = 0;
  for (const LayoutFile::Entry& entry : file.entries) {
    CAPTURE(entry.layout_case.name);
    const json expected = json::parse(entry.expect);
    REQUIRE_FALSE(expected.empty());
    const bool rows = expected[0].contains("rank_ranges");
    ++(rows ? by_rows : by_digest);
    const Layout layout = compute_layout(entry.layout_case.params, entry.layout_case.options);
    const json found = json::parse(expect_json(layout, rows ? RangeDetail::rows : RangeDetail::digest));
    REQUIRE(found.size() == expected.size());
    for (std::size_t b = 0; b < expected.size(); ++b) {
      CAPTURE(b);
      CHECK(found[b].size() == expected[b].size());
      for (const auto& member : expected[b].items()) {
        CAPTURE(member.key());
        CHECK(found[b].at(member.key()) == member.value());
      }
    }
  }
  CHECK(by_rows == 114);
  CHECK(by_digest == 86);
}
