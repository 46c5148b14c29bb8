// `zero1 train --device cuda` of this build on a machine without a GPU, whether or not it has CUDA: it
// starts, and says in words what to do. Where there is a GPU, scripts/gpu_check has the tests.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/command.h"
#include "tests/support/skip.h"

using namespace zero1::test;

TEST_CASE("without a GPU, --device cuda is an input error that names --device cpu") {
  if (std::filesystem::exists("/dev/nvidia0")) {
    skip("this machine has a GPU");
    return;
  }
  const Outcome outcome = run_zero1("train --train-iters 1 --device cuda");
  INFO(outcome.output);
  CHECK(outcome.status == 2);
  CHECK(outcome.says("--device cpu"));
  CHECK(!outcome.says("error while loading shared libraries"));
}

TEST_CASE("a build with CUDA runs on the CPU where there is no driver") {
  const Outcome outcome = run_zero1(
      "train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --threads-per-rank 1 "
      "--train-iters 1 --device cpu");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
}
