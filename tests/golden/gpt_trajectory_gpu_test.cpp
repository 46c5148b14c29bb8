// The whole pipeline on this machine's GPUs against float64 trajectories: one rank, several ranks that share
// the GPUs, and where there are two or more GPUs a rank on each over NCCL.
#include <doctest/doctest.h>

#if ZERO1_HAVE_CUDA
#include "core/train/machine_cuda.h"
#include "tests/golden/gpt_trajectory.h"
#include "tests/support/gpus.h"

using namespace zero1;

namespace {

const int gpus = test::gpus_or_skip(1);

void check(const golden::GptCase& golden_case, const char* comm, const golden::Variant& variant) {
  CAPTURE(comm);
  golden::check_trajectory(golden_case, variant, make_cuda_machine, [&](TrainConfig& config) {
    config.device = "cuda";
    config.comm = comm;
  });
}

}  // namespace

TEST_CASE("gpt-a follows its float64 trajectory on GPUs") {
  const auto a = golden::read_gpt_case(ZERO1_GOLDEN_DIR, "gpt-a");
  check(a, "local", {1, 8, std::nullopt, false});
  check(a, "local", {2, 4, std::nullopt, false});
  check(a, "local", {4, 2, 5000, true});
#ifdef ZERO1_WITH_NCCL
  check(a, "nccl", {1, 8, std::nullopt, false});
  if (gpus >= 2) check(a, "nccl", {2, 4, 10000, true});
  if (gpus >= 4) check(a, "nccl", {4, 2, 5000, true});
#endif
}

TEST_CASE("gpt-b follows its float64 trajectory on GPUs") {
  const auto b = golden::read_gpt_case(ZERO1_GOLDEN_DIR, "gpt-b");
  check(b, "local", {1, 12, std::nullopt, false});
  check(b, "local", {3, 4, 9000, true});
#ifdef ZERO1_WITH_NCCL
  if (gpus >= 2) check(b, "nccl", {2, 3, 3000, true});
  if (gpus >= 4) check(b, "nccl", {4, 3, 100, true});
#endif
}
#else
#include "tests/support/skip.h"

TEST_CASE("trajectories on GPUs") {
  zero1::test::skip("this build has no CUDA");
}
#endif
