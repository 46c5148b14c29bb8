// Every wait between streams is needed: a run without one of them is wrong, and it shows.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "core/base/error.h"
#include "core/train/machine_cuda.h"
#include "core/train/trainer.h"
#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/gpu_runs/overlapped_gpt.h"

using namespace zero1;
using cuda_emulation::Lagging;

namespace {

constexpr int steps = 3;

/// Everything that a run computes, or its error.
std::string outcome_of(const TrainConfig& config, Lagging lagging, std::int64_t skipped_wait) {
  std::string outcome;
  TrainObserver observer;
  observer.record = false;
  observer.on_step = [&](const StepMetrics& m) {
    outcome += fmt::format("{:x} {:x} ", std::bit_cast<std::uint64_t>(m.loss),
                           std::bit_cast<std::uint64_t>(m.grad_norm));
  };
  cuda_emulation::set_lag(lagging, std::chrono::milliseconds(3));
  cuda_emulation::skip_stream_wait(0, skipped_wait);
  try {
    outcome += fmt::format("{:x}", train(config, observer, make_cuda_machine).param_hash);
  } catch (const Error& error) {
    outcome += error.what();
  }
  return outcome;
}

}  // namespace

TEST_CASE("a run that lacks one of its waits between streams comes out wrong") {
  for (const char* comm : {"local", "nccl"}) {
    const TrainConfig config = test::overlapped_gpt(comm, 2, steps);
    const std::string expected = outcome_of(config, Lagging::none, -1);
    const std::int64_t waits = cuda_emulation::stream_waits(0);
    REQUIRE(waits > 10 * steps);
    std::vector<std::int64_t> unnoticed;
    for (std::int64_t wait = waits / steps; wait < 2 * waits / steps; ++wait) {
      bool noticed = false;
      for (const Lagging lagging : {Lagging::compute, Lagging::communication, Lagging::all}) {
        noticed = noticed || outcome_of(config, lagging, wait) != expected;
      }
      if (!noticed) unnoticed.push_back(wait);
    }
    MESSAGE(comm << ": " << waits << " waits, unnoticed: " << fmt::format("{}", unnoticed));
    CHECK(unnoticed.empty());
  }
  cuda_emulation::set_lag(Lagging::none);
  cuda_emulation::skip_stream_wait(0, -1);
}
