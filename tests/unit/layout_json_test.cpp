// Reading specs, and what a malformed one is told; writing `expect`.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "core/layout/digest.h"
#include "core/layout/json.h"

using namespace zero1;
using nlohmann::json;

namespace {

json good_case() {
  return json::parse(R"({
    "name": "small",
    "params": [{"name": "w", "shape": [5, 7], "dtype": "bfloat16", "shared_embedding": true},
               {"name": "quote \" and ümlaut", "shape": [], "dtype": "float32", "expert_parallel": true}],
    "dp_size": 3, "expert_dp_size": 1, "bucket_size": null,
    "pad_buckets_for_high_nccl_busbw": false, "grad_reduce_in_fp32": true})");
}

/// What the reader says to a text.
std::string refusal(const std::string& text) {
  try {
    parse_layout_file(text, "spec.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// The good case with one place replaced; "/params/0/dtype" style pointers.
std::string refusal_with(const std::string& pointer, const json& value) {
  json changed = good_case();
  changed[json::json_pointer(pointer)] = value;
  return refusal(changed.dump());
}

std::string refusal_without(const std::string& parent, const std::string& key) {
  json changed = good_case();
  changed[json::json_pointer(parent)].erase(key);
  return refusal(changed.dump());
}

bool starts_with(const std::string& text, const std::string& beginning) {
  return text.rfind(beginning, 0) == 0;
}

}  // namespace

TEST_CASE("a case is read field by field") {
  const LayoutCase read = parse_layout_case(good_case());
  CHECK(read.name == "small");
  REQUIRE(read.params.size() == 2);
  CHECK(read.params[0] == ParamSpec{"w", {5, 7}, DType::bf16, true, false});
  CHECK(read.params[1] == ParamSpec{"quote \" and ümlaut", {}, DType::fp32, false, true});
  CHECK(read.options.dp_size == 3);
  CHECK(read.options.expert_dp_size == 1);
  CHECK_FALSE(read.options.bucket_size_elems.has_value());
  CHECK(parse_layout_case(json::parse(layout_case_json(read).dump())) == read);
}

TEST_CASE("a file holds a case, a case with its expectation, or a list of either") {
  const std::string bare = good_case().dump();
  CHECK_FALSE(parse_layout_file(bare, "f").is_list);
  CHECK(parse_layout_file(bare, "f").entries.size() == 1);
  const LayoutFile list = parse_layout_file("[" + bare + R"(,{"case":)" + bare + R"(,"expect":[7]}])", "f");
  CHECK(list.is_list);
  REQUIRE(list.entries.size() == 2);
  CHECK(list.entries[0].expect.empty());
  CHECK(list.entries[1].expect == "[7]");
  CHECK(list.entries[0].layout_case == list.entries[1].layout_case);
  CHECK(parse_layout_file("[]", "f").entries.empty());
}

TEST_CASE("missing fields are named") {
  for (const char* field : {"params", "dp_size", "expert_dp_size", "bucket_size",
                            "pad_buckets_for_high_nccl_busbw", "grad_reduce_in_fp32"}) {
    CAPTURE(field);
    CHECK(refusal_without("", field) == "spec.json: " + std::string(field) + ": the field is missing");
  }
  for (const char* field : {"name", "shape", "dtype"}) {
    CAPTURE(field);
    CHECK(refusal_without("/params/1", field) ==
          "spec.json: params[1]." + std::string(field) + ": the field is missing");
  }
  CHECK(refusal_without("", "name") == "accepted");
}

TEST_CASE("unknown and repeated fields are named") {
  CHECK(starts_with(refusal_with("/dp", 4), "spec.json: dp: unknown field"));
  CHECK(starts_with(refusal_with("/params/0/stride", 4), "spec.json: params[0].stride: unknown field"));
  CHECK(
      starts_with(refusal(R"({"params": [], "params": []})"), "spec.json: the field 'params' appears twice"));
  CHECK(starts_with(refusal(R"({"case": {}, "expected": []})"), "spec.json: expected: unknown field"));
}

TEST_CASE("wrong types and values are named with what was expected and found") {
  CHECK(refusal_with("/params/0/shape/1", 7.0) ==
        "spec.json: params[0].shape[1]: expected an integer below 2^63, found 7.0");
  CHECK(starts_with(refusal_with("/params/0/shape/1", 1e30),
                    "spec.json: params[0].shape[1]: expected an integer"));
  CHECK(starts_with(refusal_with("/params/0/shape/0", 9223372036854775808u),
                    "spec.json: params[0].shape[0]: "));
  CHECK(starts_with(refusal_with("/params/0/shape/0", true), "spec.json: params[0].shape[0]: "));
  CHECK(starts_with(refusal_with("/params/0/shape/0", nullptr), "spec.json: params[0].shape[0]: "));
  CHECK(starts_with(refusal_with("/params/0/shape", 35), "spec.json: params[0].shape: expected a list"));
  CHECK(starts_with(refusal_with("/params/0/name", 1), "spec.json: params[0].name: expected a string"));
  CHECK(refusal_with("/params/0/dtype", "int8") ==
        "spec.json: params[0].dtype: expected float32, bfloat16 or float16, found \"int8\"");
  CHECK(
      starts_with(refusal_with("/params/0/shared_embedding", 1), "spec.json: params[0].shared_embedding: "));
  CHECK(starts_with(refusal_with("/params/0", "w"), "spec.json: params[0]: expected an object"));
  CHECK(starts_with(refusal_with("/params", json::object()), "spec.json: params: expected a list"));
  CHECK(starts_with(refusal_with("/dp_size", 0), "spec.json: dp_size: expected 1 to "));
  CHECK(starts_with(refusal_with("/dp_size", 4294967297), "spec.json: dp_size: "));
  CHECK(starts_with(refusal_with("/expert_dp_size", -1), "spec.json: expert_dp_size: "));
  CHECK(starts_with(refusal_with("/bucket_size", 1.5), "spec.json: bucket_size: "));
  CHECK(starts_with(refusal_with("/bucket_size", "4k"), "spec.json: bucket_size: "));
  CHECK(starts_with(refusal_with("/grad_reduce_in_fp32", 1), "spec.json: grad_reduce_in_fp32: "));
  CHECK(starts_with(refusal_with("/name", 7), "spec.json: name: "));
}

TEST_CASE("an entry of a list is named by its position") {
  json bad = good_case();
  bad["params"][1]["dtype"] = "int8";
  CHECK(starts_with(refusal(json::array({good_case(), bad}).dump()),
                    "spec.json: entry [1]: params[1].dtype: "));
  CHECK(starts_with(refusal("[7]"), "spec.json: entry [0]: case: expected an object, found 7"));
}

TEST_CASE("what is not JSON is refused with the place") {
  for (const char* text : {"", "{", "[1,", "nul", "{\"a\" 1}", "\"\x80\"", "{} {}"}) {
    CAPTURE(text);
    CHECK(starts_with(refusal(text), "spec.json: not JSON: parse error at line 1"));
  }
}

TEST_CASE("a spec with any bit flipped, or cut anywhere, gives a layout or is refused by name") {
  const std::string whole = good_case().dump();
  int read = 0;
  const auto try_text = [&](const std::string& text) {
    try {
      for (const LayoutFile::Entry& entry : parse_layout_file(text, "spec.json").entries) {
        const Layout layout = compute_layout(entry.layout_case.params, entry.layout_case.options);
        CHECK(json::accept(expect_json(layout, RangeDetail::rows)));
        ++read;
      }
    } catch (const InputError& error) {
      CHECK_FALSE(std::string(error.what()).empty());
    }
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    CAPTURE(at);
    try_text(whole.substr(0, at));
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      try_text(flipped);
    }
  }
  CHECK(read > 100);  // a name or a size may be another and the spec still good
}

TEST_CASE("expect is written row by row as the schema says") {
  const LayoutCase given = parse_layout_case(good_case());
  const Layout layout = compute_layout(given.params, given.options);
  const json expect = json::parse(expect_json(layout, RangeDetail::rows));
  REQUIRE(expect.size() == 2);
  CHECK(expect[0] == json::parse(R"({
    "param_dtype": "bfloat16", "grad_dtype": "float32", "expert_parallel": false, "dp_size": 3,
    "numel": 384, "numel_unpadded": 35,
    "buckets": [{"start": 0, "end": 384, "numel_unpadded": 35, "params": ["w"]}],
    "param_index": {"w": [0, 35, 0]},
    "rank_ranges": [[[0, "w", [0, 35], [0, 35], [0, 35], [0, 35]]], [], []]})"));
  CHECK(expect[1]["param_index"] == json::parse(R"({"quote \" and ümlaut": [0, 1, 0]})"));
  CHECK(expect[1]["dp_size"] == 1);

  const json digest = json::parse(expect_json(layout, RangeDetail::digest));
  CHECK(digest[0]["rank_range_rows"] == 1);
  CHECK(digest[0]["num_buckets"] == 1);
  CHECK(digest[0]["rank_ranges_sha256"] == range_digest(layout, 0).sha256);
  CHECK_FALSE(digest[0].contains("rank_ranges"));
  CHECK(json::parse(expect_json(compute_layout({}, {}), RangeDetail::rows)) == json::array());
}
