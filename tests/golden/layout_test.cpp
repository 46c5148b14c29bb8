// Layouts computed by Megatron-LM itself, which ours must equal to the last element.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.h"
#include "core/layout/json.h"

using namespace zero1;
using nlohmann::json;

namespace {

LayoutFile read_cases(const std::string& file) {
  const std::string path = ZERO1_GOLDEN_DIR "/" + file;
  return parse_layout_file(read_file(path), path);
}

/// Compares every case and returns how many there were.
int compare_all(const LayoutFile& file, RangeDetail detail) {
  int count = 0;
  for (const LayoutFile::Entry& entry : file.entries) {
    const LayoutCase& layout_case = entry.layout_case;
    CAPTURE(layout_case.name);
    const Layout layout = compute_layout(layout_case.params, layout_case.options);
    const json expected = json::parse(entry.expect);
    const json found = json::parse(expect_json(layout, detail));
    REQUIRE(found.size() == expected.size());
    for (std::size_t b = 0; b < expected.size(); ++b) {
      CAPTURE(b);
      for (const auto& field : expected[b].items()) {
        CAPTURE(field.key());
        CHECK(found[b].at(field.key()) == field.value());
      }
      CHECK(found[b].size() == expected[b].size());
    }
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("the small golden layouts hold row by row") {
  CHECK(compare_all(read_cases("layout_small.json"), RangeDetail::rows) == 64);
}

TEST_CASE("the model-sized golden layouts hold by digest") {
  CHECK(compare_all(read_cases("layout_large.json"), RangeDetail::digest) == 5);
}

TEST_CASE("a case survives the way to JSON and back") {
  for (const char* file : {"layout_small.json", "layout_large.json"}) {
    for (const LayoutFile::Entry& entry : read_cases(file).entries) {
      CAPTURE(entry.layout_case.name);
      const std::string text = layout_case_json(entry.layout_case).dump();
      CHECK(parse_layout_case(json::parse(text)) == entry.layout_case);
    }
  }
}
