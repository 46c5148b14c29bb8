// To TSan, a run that lacks a wait between streams is a data race, also where its values come out right.
//
// Nothing is recorded: who asks how far a stream has come is ordered after what the stream has done, and a
// recorder asks all the time, so that a race would be one or not by when it asked.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/train/machine_cuda.h"
#include "core/train/trainer.h"
#include "tests/cuda_emulation/gpu_runs/overlapped_gpt.h"
#include "tests/support/command.h"
#include "tests/support/sanitizers.h"

using namespace zero1;
using namespace zero1::test;

namespace {

/// The last wait of the second step is the third's for its parameters.
constexpr int steps = 3;

/// The program below, in a process of its own: the first race ends it.
Outcome train_without(int wait, const char* lagging) {
  return run_command(
      fmt::format("ZERO1_EMULATED_LAG={} ZERO1_EMULATED_SKIP_WAIT={} {} --no-skip --test-case='the program'",
                  lagging, wait, quoted(ZERO1_BIN_DIR "/emulated_gpu_wait_races")));
}

bool has_race(const Outcome& outcome) {
  return outcome.says("ThreadSanitizer: data race");
}

/// A run with a race, or else the last tried: either kind of stream is late. On a busy machine the host may,
/// by chance, wait for one stream just before it hands work to the other, and order them. So a lack that has
/// not shown gets further chances.
Outcome look_for_race_without(int wait) {
  Outcome outcome;
  for (int chance = 0; chance < 3; ++chance) {
    for (const char* lagging : {"compute", "communication"}) {
      outcome = train_without(wait, lagging);
      if (has_race(outcome)) return outcome;
    }
  }
  return outcome;
}

}  // namespace

TEST_CASE("the program" * doctest::skip()) {
  TrainObserver observer;
  observer.record = false;
  train(one_bucket_gpt(steps), observer, make_cuda_machine);
}

TEST_CASE("a run with all its waits has no race") {
  for (const char* lagging : {"none", "compute", "communication"}) {
    const Outcome outcome = train_without(-1, lagging);
    CHECK_MESSAGE(outcome.status == 0, outcome.output);
    CHECK_MESSAGE(outcome.says("1 passed"), outcome.output);
  }
}

TEST_CASE("a run that lacks a wait has a data race" * doctest::skip(!under_tsan)) {
  // The first step's four for its norm, then the second step's. 1, 2 and 3 are implied by other waits of the
  // step: mutation_test.cpp says by which, and where they are not.
  constexpr int second = one_bucket_gpt_first_waits;
  for (const int position : {4, 5, 6, 7, second, second + 4, second + 5, second + 6, second + 7}) {
    CAPTURE(position);
    const Outcome outcome = look_for_race_without(position);
    CHECK_MESSAGE(has_race(outcome), outcome.output);
  }
}
