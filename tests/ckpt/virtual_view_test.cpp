// checkpoint.h5:/model reads in full shape with other people's programs: h5py and h5dump.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "ckpt/gather.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/ckpt/python.h"
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
    MESSAGE("[skipped] no Python with h5py: apt install python3-h5py");
    return;
  }
  const test::TemporaryFolder folder;
  const std::string script = folder.write("check.py", check_script);
  for (const int dp : {1, 3, 8, 24}) {
    CAPTURE(dp);
    const std::string name = "dp" + std::to_string(dp);
    ckpt::write_checkpoint(folder.path(name), {}, test::uneven_case(dp, dp == 3 ? 100 : 1000),
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

TEST_CASE("h5dump reads it too") {
  if (test::run_command("h5dump --version").status != 0) {
    MESSAGE("[skipped] no h5dump: apt install hdf5-tools");
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
  ckpt::write_checkpoint(folder.path("c"), {}, layout_case, Counting());
  const test::Outcome outcome =
      test::run_command("h5dump -d /model/w/exp_avg_sq " + folder.path("c/checkpoint.h5"));
  CHECK(outcome.status == 0);
  CHECK(outcome.says("(0,0): 0, 1, 2, 3"));
  CHECK(outcome.says("(2,0): 8, 9, 10, 11"));
}
