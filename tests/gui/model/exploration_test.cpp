// Layouts that are tried out: presets, files, options.
#include "viz/model/exploration.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

using namespace zero1;
using namespace zero1::viz;

namespace {

std::int64_t numel(const std::vector<ParamSpec>& specs) {
  std::int64_t elems = 0;
  for (const ParamSpec& spec : specs) elems += spec.numel();
  return elems;
}

int find_source(const Exploration& exploration, std::string_view name) {
  const auto sources = exploration.sources();
  const auto found =
      std::find_if(sources.begin(), sources.end(), [&](const auto& source) { return source.name == name; });
  REQUIRE(found != sources.end());
  return static_cast<int>(found - sources.begin());
}

}  // namespace

TEST_CASE("presets have the sizes that the models are known by") {
  struct Known {
    const char* name;
    std::int64_t elems;
  };
  const Known known[] = {{"GPT-2 small", 124'439'808},
                         {"GPT-2 medium", 354'823'168},
                         {"GPT-2 large", 774'030'080},
                         {"GPT-2 XL", 1'557'611'200}};
  for (const Known& expected : known) {
    CAPTURE(expected.name);
    const auto presets = model_presets();
    const auto preset = std::find_if(presets.begin(), presets.end(),
                                     [&](const auto& each) { return each.name == expected.name; });
    REQUIRE(preset != presets.end());
    CHECK(numel(param_specs(*preset, DType::bf16)) == expected.elems);
  }
}

TEST_CASE("every option redraws the layout as compute_layout has it") {
  Exploration exploration;
  LayoutOptions options = exploration.options();
  const auto check = [&] {
    exploration.set_options(options);
    REQUIRE(exploration.error().empty());
    CHECK(*exploration.layout() == compute_layout(exploration.layout()->specs, options));
  };
  for (const int dp : {1, 3, 8, 1024}) {
    options.dp_size = dp;
    check();
    CHECK(exploration.layout()->buffers[0].dp_size == dp);
  }
  options.bucket_size_elems.reset();
  check();
  CHECK(exploration.layout()->bucket_count() == 1);
  options.pad_buckets_for_high_nccl_busbw = true;
  check();
  CHECK(exploration.layout()->buffers[0].numel % (1 << 16) == 0);
  options.grad_reduce_in_fp32 = false;
  exploration.set_dtype(DType::bf16);
  check();
  CHECK(exploration.layout()->buffers[0].grad_dtype == DType::bf16);
}

TEST_CASE("what cannot be laid out leaves the last layout, and says why") {
  Exploration exploration;
  const auto before = exploration.layout();
  LayoutOptions options = exploration.options();
  options.dp_size = 0;
  exploration.set_options(options);
  CHECK(exploration.layout() == before);
  CHECK(exploration.error().find("dp_size") != std::string::npos);
  options.dp_size = 2;
  exploration.set_options(options);
  CHECK(exploration.error().empty());
  CHECK(exploration.layout() != before);
}

TEST_CASE("a file's cases come first, with their options") {
  const std::string path = ZERO1_GOLDEN_DIR "/layout_large.json";
  Exploration exploration(read_file(path), path);
  CHECK(exploration.sources()[0].from_file);
  const LayoutFile file = parse_layout_file(read_file(path), path);
  for (std::size_t i = 0; i < file.entries.size(); ++i) {
    exploration.choose(static_cast<int>(i));
    const LayoutCase& wanted = file.entries[i].layout_case;
    CHECK(exploration.options() == wanted.options);
    CHECK(*exploration.layout() == compute_layout(wanted.params, wanted.options));
  }
  exploration.choose(find_source(exploration, "GPT-2 small"));
  CHECK(exploration.options().dp_size == file.entries.back().layout_case.options.dp_size);
  CHECK(exploration.layout()->specs.front().name == "wte.weight");
}

TEST_CASE("a bad file is told with its name") {
  const auto message = [](const std::string& text) {
    try {
      const Exploration exploration(text, "spec.json");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message("nonsense").find("spec.json") == 0);
  CHECK(message("[]").find("spec.json") == 0);
  CHECK(message(R"({"params": [], "dp_size": 0})").find("spec.json") == 0);
  const std::string text =
      message(R"({"params": [{"name": "a", "shape": [1], "dtype": "float32"}, {"name": "a", "shape": [1],
                  "dtype": "float32"}], "dp_size": 1, "expert_dp_size": 1, "bucket_size": null,
                  "pad_buckets_for_high_nccl_busbw": false, "grad_reduce_in_fp32": true})");
  CHECK(text.find("spec.json") == 0);
  CHECK(text.find("'a'") != std::string::npos);
}
