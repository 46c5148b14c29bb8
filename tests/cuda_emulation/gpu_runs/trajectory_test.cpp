// Whole runs on virtual GPUs against the float64 trajectories: 1, 2 and 4 GPUs over both communicators, and
// several ranks on one GPU.
#include <doctest/doctest.h>

#include "core/train/machine_cuda.h"
#include "cuda_emulation/control.h"
#include "tests/golden/gpt_trajectory.h"
#include "tests/support/sanitizers.h"

using namespace zero1;

namespace {

struct GpuRun {
  int gpus;
  const char* comm;
  golden::Variant variant;
};

void check(const golden::GptCase& golden_case, const GpuRun& run, std::int64_t steps) {
  CAPTURE(run.gpus);
  CAPTURE(run.comm);
  cuda_emulation::set_device_count(run.gpus);
  golden::check_trajectory(golden_case, run.variant, make_cuda_machine, [&](TrainConfig& config) {
    config.device = "cuda";
    config.comm = run.comm;
    config.train_iters = std::min(steps, config.train_iters);
  });
  cuda_emulation::set_device_count(4);
}

}  // namespace

TEST_CASE("gpt-a follows its float64 trajectory on virtual GPUs") {
  const auto a = golden::read_gpt_case(ZERO1_GOLDEN_DIR, "gpt-a");
  for (const GpuRun& run :
       {GpuRun{1, "nccl", {1, 8, std::nullopt, false}}, GpuRun{2, "nccl", {2, 4, 10000, true}},
        GpuRun{4, "nccl", {4, 2, 5000, true}}, GpuRun{1, "local", {2, 4, 7000, true}},
        GpuRun{2, "local", {2, 4, std::nullopt, false}}, GpuRun{4, "local", {4, 2, 5000, true}}}) {
    check(a, run, 4);
  }
}

TEST_CASE("gpt-b follows its float64 trajectory on virtual GPUs") {
  const auto b = golden::read_gpt_case(ZERO1_GOLDEN_DIR, "gpt-b");
  for (const GpuRun& run : {GpuRun{1, "local", {1, 12, std::nullopt, false}},
                            GpuRun{2, "nccl", {2, 3, 3000, true}}, GpuRun{1, "local", {4, 3, 4000, true}},
                            GpuRun{2, "local", {3, 4, 9000, true}}, GpuRun{4, "nccl", {4, 3, 100, true}}}) {
    check(b, run, 4);
  }
}

// All 40 steps, to the final parameters: 20 s of computing, and several times that under a sanitizer.
TEST_CASE("a whole run of gpt-b ends at its float64 parameters" *
          doctest::skip(test::under_tsan || test::under_asan)) {
  const auto b = golden::read_gpt_case(ZERO1_GOLDEN_DIR, "gpt-b");
  check(b, {2, "nccl", {2, 3, 3000, true}}, static_cast<std::int64_t>(b.losses.size()));
}
