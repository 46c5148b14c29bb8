// To TSan, a run that lacks a wait between streams is a data race, also where its values come out right.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/command.h"
#include "tests/support/sanitizers.h"

using namespace zero1::test;

namespace {

/// Three steps of two ranks over NCCL, with ten waits on each GPU in a step (mutation_test.cpp). The last of
/// the second step is the third's wait for its parameters.
Outcome train_without(int wait) {
  return run_command(
      fmt::format("ZERO1_EMULATED_GPUS=2 "
                  "ZERO1_EMULATED_SKIP_WAIT={} {} train --num-layers 1 --hidden-size 24 "
                  "--num-attention-heads 3 --seq-length 12 --train-iters 3 --device cuda --comm nccl --dp 2 "
                  "--overlap-grad-reduce --overlap-param-gather --no-check-for-nan-in-loss-and-grad",
                  wait, quoted(ZERO1_BIN_DIR "/zero1_on_virtual_gpus")));
}

}  // namespace

TEST_CASE("a run with all its waits has no race") {
  const Outcome outcome = train_without(-1);
  CHECK_MESSAGE(outcome.status == 0, outcome.output);
}

TEST_CASE("a run that lacks a wait has a data race" * doctest::skip(!under_tsan)) {
  // 1, 2 and 3 are implied by other waits of the step: mutation_test.cpp says by which, and where they are
  // not.
  for (const int position : {0, 4, 5, 6, 7, 8, 9}) {
    CAPTURE(position);
    const Outcome outcome = train_without(10 + position);
    CHECK_MESSAGE(outcome.says("ThreadSanitizer: data race"), outcome.output);
  }
}
