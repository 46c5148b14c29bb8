// checkpoint.h5:/model reads in full shape with other people's programs: h5py and h5dump.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ckpt/diff.h"
#include "ckpt/gather.h"
#include "ckpt/verify.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/ckpt/python.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

constexpr const char* check_script = R"(
import sys, h5py, numpy as np
shapes = {'embed': (7, 5), 'one': (1,), 'cube': (3, 5, 7), 'low': (11, 3), 'scalar': (), 'nothing': (0, 3),
          'wide': (2, 301), 'tail': (5, 1, 2, 3)}
lines = open(sys.argv[2]).read().splitlines()
assert len(lines) == 24
with h5py.File(sys.argv[1], 'r') as f:
    assert set(f['model'].keys()) == set(shapes)
    for line in lines:
        name, state, *bits = line.split()
        d = f['model'][name][state]
        assert d.dtype == np.float32
        assert d.shape == shapes[name], d.shape
        found = np.asarray(d[()]).reshape(-1).view(np.uint32)
        assert [int(x, 16) for x in bits] == found.tolist(), (name, state)
)";

}  // namespace

TEST_CASE("h5py reads every parameter in full shape, also after the folder was moved") {
  const std::string python = test::python_with("h5py, numpy");
  if (python.empty()) {
    test::skip("no Python with h5py: apt install python3-h5py");
    return;
  }
  const test::TemporaryFolder folder;
  const std::string script = folder.write("check.py", check_script);
  for (const int dp : {1, 3, 8, 24}) {
    CAPTURE(dp);
    const std::string name = "dp" + std::to_string(dp);
    ckpt::write_checkpoint(folder.path(name), test::one_step(), test::uneven_case(dp, dp == 3 ? 100 : 1000),
                           test::PlacedValues());
    const ckpt::Checkpoint checkpoint(folder.path(name));
    const std::string values = folder.write("values", test::placed_values_text(checkpoint.layout().specs));
    ckpt::gather_hdf5(checkpoint, folder.path(name + ".h5"), {});
    const std::string moved = folder.path(name + "_moved");
    std::filesystem::rename(folder.path(name), moved);
    for (const std::string& file : {moved + "/checkpoint.h5", folder.path(name + ".h5")}) {
      const test::Outcome outcome = test::run_command(python + " " + script + " " + file + " " + values);
      CHECK_MESSAGE(outcome.status == 0, outcome.output);
    }
  }
}

TEST_CASE("whatever parameters are called, h5py finds them in the view and in the gathered file") {
  const std::string python = test::python_with("h5py, numpy");
  if (python.empty()) {
    test::skip("no Python with h5py: apt install python3-h5py");
    return;
  }
  // The name, and where it lies below /model.
  const std::string very_long(5000, 'n');
  std::string deep = "d";
  for (int i = 0; i < 300; ++i) deep += "/d";
  const std::vector<std::pair<std::string, std::string>> names{{"a", "a"},
                                                               {"a/b", "a/b"},
                                                               {"a/b/c.weight", "a/b/c.weight"},
                                                               {"a/param", "a/%param"},
                                                               {"a/%param", "a/%%param"},
                                                               {"a/exp_avg/b", "a/%exp_avg/b"},
                                                               {"param", "param"},
                                                               {"exp_avg.exp_avg", "exp_avg.exp_avg"},
                                                               {".", "%."},
                                                               {"..", "%.."},
                                                               {"...", "..."},
                                                               {"../up", "%../up"},
                                                               {"./here", "%./here"},
                                                               {"/first", "%/first"},
                                                               {"last/", "last/%"},
                                                               {"two//slashes", "two/%/slashes"},
                                                               {"/", "%/%"},
                                                               {"%", "%%"},
                                                               {"with space", "with space"},
                                                               {" ", " "},
                                                               {"größe.重み.🙂", "größe.重み.🙂"},
                                                               {"new\nline\ttab", "new\nline\ttab"},
                                                               {"quote\"back\\slash'", "quote\"back\\slash'"},
                                                               {"model", "model"},
                                                               {"state", "state"},
                                                               {very_long, very_long},
                                                               {deep, deep}};
  const std::vector<std::vector<std::int64_t>> shapes{{}, {1}, {0}, {3}, {2, 0, 3}, {2, 3, 1, 4, 5}, {7, 11}};
  LayoutCase layout_case;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& shape = shapes[i % shapes.size()];
    layout_case.params.push_back({names[i].first, shape, DType::fp32, false, false});
    std::string joined;
    for (const std::string& part : ckpt::group_path(names[i].first))
      joined += (joined.empty() ? "" : "/") + part;
    CHECK(joined == names[i].second);
  }
  layout_case.options.dp_size = layout_case.options.expert_dp_size = 3;
  const test::TemporaryFolder folder;
  ckpt::write_checkpoint(folder.path("c"), test::one_step(), layout_case, test::PlacedValues());
  const ckpt::Checkpoint checkpoint(folder.path("c"));
  CHECK(test::misplaced(checkpoint) == 0);
  CHECK(ckpt::verify(folder.path("c")).faults.empty());
  ckpt::gather_hdf5(checkpoint, folder.path("all.h5"), {});
  ckpt::gather_safetensors(checkpoint, folder.path("all.safetensors"), {});
  test::import_as(folder.path("all.safetensors"), folder.path("back"), 2);
  CHECK(ckpt::diff(checkpoint, ckpt::Checkpoint(folder.path("back")), {{}, {}, true, ""}).equal());

  auto list = nlohmann::json::array();
  for (std::size_t p = 0; p < names.size(); ++p) {
    for (const ckpt::State state : ckpt::all_states) {
      auto bits = nlohmann::json::array();
      for (std::int64_t i = 0; i < layout_case.params[p].numel(); ++i)
        bits.push_back(
            std::bit_cast<std::uint32_t>(test::PlacedValues::value(static_cast<int>(p), state, i)));
      list.push_back({{"path", "model/" + names[p].second + "/" + std::string(ckpt::name(state))},
                      {"shape", layout_case.params[p].shape},
                      {"bits", bits}});
    }
  }
  const std::string values = folder.write("values.json", list.dump());
  const std::string script = folder.write("names.py", R"(
import json, sys, h5py, numpy as np
expected = json.load(open(sys.argv[2]))
with h5py.File(sys.argv[1], 'r') as f:
    for e in expected:
        d = f[e['path']]
        assert d.dtype == np.float32 and list(d.shape) == e['shape'], (e['path'], d)
        assert np.asarray(d[()]).reshape(-1).view(np.uint32).tolist() == e['bits'], e['path']
    found = []
    f['model'].visititems(lambda name, o: found.append(name) if isinstance(o, h5py.Dataset) else None)
    assert len(found) == len(expected), (len(found), len(expected))
)");
  for (const char* file : {"c/checkpoint.h5", "all.h5"}) {
    const test::Outcome outcome =
        test::run_command(python + " " + script + " " + folder.path(file) + " " + values);
    CHECK_MESSAGE(outcome.status == 0, outcome.output);
  }
}

TEST_CASE("h5dump reads it too") {
  if (test::run_command("h5dump --version").status != 0) {
    test::skip("no h5dump: apt install hdf5-tools");
    return;
  }
  const test::TemporaryFolder folder;
  LayoutCase layout_case;
  layout_case.params = {{"w", {3, 4}, DType::fp32, false, false}, {"pad", {180}, DType::fp32, false, false}};
  layout_case.options.dp_size = 5;
  class Counting : public ckpt::ElementSource {
   public:
    void read(int, ckpt::State, Range range, float* out) const override {
      for (std::int64_t i = 0; i < range.size(); ++i) out[i] = static_cast<float>(range.start + i);
    }
  };
  ckpt::write_checkpoint(folder.path("c"), test::one_step(), layout_case, Counting());
  const test::Outcome outcome =
      test::run_command("h5dump -d /model/w/exp_avg_sq " + folder.path("c/checkpoint.h5"));
  CHECK(outcome.status == 0);
  CHECK(outcome.says("(0,0): 0, 1, 2, 3"));
  CHECK(outcome.says("(2,0): 8, 9, 10, 11"));
}

TEST_CASE("what a missing rank file held reads as NaN, not as a value") {
  const std::string python = test::python_with("h5py, numpy");
  if (python.empty()) {
    test::skip("no Python with h5py: apt install python3-h5py");
    return;
  }
  // Rank 1 holds w from element 64 on.
  const test::TemporaryFolder folder;
  LayoutCase layout_case;
  layout_case.params = {{"w", {16, 8}, DType::fp32, false, false}};
  layout_case.options.dp_size = layout_case.options.expert_dp_size = 2;
  ckpt::write_checkpoint(folder.path("c"), test::one_step(), layout_case, test::PlacedValues());
  CHECK(ckpt::verify(folder.path("c")).faults.empty());
  const std::string script = folder.write("missing.py", R"(
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], 'r') as f:
    for state in ('param', 'exp_avg', 'exp_avg_sq'):
        d = f['model/w'][state]
        assert np.isnan(d.fillvalue), d.fillvalue
        w = d[()].reshape(-1)
        lost = int(sys.argv[2])
        assert np.isnan(w).sum() == lost, (state, np.isnan(w).sum())
        assert not np.isnan(w[:len(w) - lost]).any() and (w[:len(w) - lost] != 0).all()
)");
  const auto check = [&](int lost) {
    const test::Outcome outcome =
        test::run_command(fmt::format("{} {} {} {}", python, script, folder.path("c/checkpoint.h5"), lost));
    CHECK_MESSAGE(outcome.status == 0, outcome.output);
  };
  check(0);
  std::filesystem::remove(folder.path("c/rank_00001.h5"));
  check(64);
}
