// The Python safetensors library, where it is installed, opens what we write and writes what we open.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "core/data/safetensors.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;

namespace {

/// ZERO1_PYTHON names another interpreter, such as that of a virtual environment.
std::string python() {
  const char* chosen = std::getenv("ZERO1_PYTHON");  // NOLINT(concurrency-mt-unsafe): one thread
  return chosen != nullptr ? chosen : "python3";
}

bool run_python(const std::string& script_path) {
  return std::system((python() + " " + script_path + " 2>/dev/null").c_str()) == 0;  // NOLINT
}

}  // namespace

TEST_CASE("the Python library and we read each other's files") {
  const test::TemporaryFolder folder;
  if (!run_python(folder.write("probe.py", "import numpy, safetensors.numpy"))) {
    test::skip(fmt::format("{} has no safetensors and numpy: pip install safetensors numpy", python()));
    return;
  }
  SafetensorsWriter writer(folder.path("ours"),
                           {{"half", DType::fp16, {3}},
                            {"scalar", DType::fp64, {}},
                            {"matrix", DType::fp32, {5, 7}},
                            {"brain", DType::bf16, {1}},
                            {"nothing", DType::fp32, {0, 3}}},
                           {{"format", "pt"}});
  const float half[] = {0.5F, -2.0F, 65504.0F};
  const float scalar = 0.25F;
  const float brain = 3.0F;
  float matrix[35];
  for (int i = 0; i < 35; ++i) matrix[i] = static_cast<float>(i) / 8;
  writer.write_fp32(0, 0, half, 3);
  writer.write_fp32(1, 0, &scalar, 1);
  writer.write_fp32(2, 0, matrix, 35);
  writer.write_fp32(3, 0, &brain, 1);
  writer.close();

  const std::string check = fmt::format(R"(
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
with safe_open('{0}/ours', framework='np') as f:
    assert set(f.keys()) == {{'half', 'scalar', 'matrix', 'brain', 'nothing'}}
    assert f.metadata() == {{'format': 'pt'}}
    assert f.get_tensor('half').dtype == np.float16 and f.get_tensor('half').tolist() == [0.5, -2.0, 65504.0]
    assert f.get_tensor('scalar').shape == () and f.get_tensor('scalar') == 0.25
    assert (f.get_tensor('matrix') == (np.arange(35) / 8).reshape(5, 7)).all()
    assert f.get_slice('brain').get_dtype() == 'BF16'
    assert f.get_tensor('nothing').shape == (0, 3)
save_file({{'a': np.arange(6, dtype=np.float16).reshape(2, 3), 'b': np.array(1.5), 'c': np.arange(3)}}, '{0}/theirs')
)",
                                        folder.path("."));
  REQUIRE(run_python(folder.write("check.py", check)));
  const SafetensorsReader theirs(folder.path("theirs"));
  REQUIRE(theirs.entries().size() == 3);
  CHECK(theirs.read_fp32(*theirs.find("a"), {0, 6}) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(theirs.find("a")->shape == std::vector<std::int64_t>{2, 3});
  CHECK(theirs.read_fp32(*theirs.find("b"), {0, 1}) == std::vector<float>{1.5F});
  CHECK(theirs.find("c")->foreign_dtype == "I64");
}
