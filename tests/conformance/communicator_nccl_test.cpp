// The communicator suite on NCCL, with as many ranks as this machine has GPUs. Cases that need a group of a
// fixed size run on virtual GPUs only (tests/cuda_emulation/gpu_runs).
#if ZERO1_HAVE_CUDA && defined(ZERO1_WITH_NCCL)
#include "core/comm/nccl/nccl_world.h"
#include "tests/conformance/communicator_gpu_backend.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/support/gpus.h"

namespace {

const int gpus = zero1::test::gpus_or_skip(2);

class Nccl final : public zero1::test::GpuWorldBackend<zero1::NcclWorld> {
 public:
  std::vector<int> sizes() const override {
    std::vector<int> all;
    for (int size = 1; size <= gpus; ++size) all.push_back(size);
    return all;
  }
  bool exact() const override { return false; }  // NCCL adds in an order of its choice
};

}  // namespace

ZERO1_COMMUNICATOR_CASE(Nccl, "each collective gives the reference's result", check_each_collective)
ZERO1_COMMUNICATOR_CASE(Nccl, "each reduction gives the reference's result", check_reductions)
ZERO1_COMMUNICATOR_CASE(Nccl, "results are the same on all ranks and reruns", check_determinism)
ZERO1_COMMUNICATOR_CASE(Nccl, "mixed calls coalesce into one launch", check_coalescing)
ZERO1_COMMUNICATOR_CASE(Nccl, "Work orders another stream", check_order)
ZERO1_COMMUNICATOR_CASE(Nccl, "groups split, also again", check_split)
ZERO1_COMMUNICATOR_CASE(Nccl, "several hundred collectives in random order", check_stress)
ZERO1_COMMUNICATOR_CASE(Nccl, "a throwing rank is named to all others", check_throwing_rank)
ZERO1_COMMUNICATOR_CASE(Nccl, "a rank that leaves is named to all others", check_leaving_rank)
#else
#include <doctest/doctest.h>

#include "tests/support/skip.h"

TEST_CASE("NCCL's ranks") {
  zero1::test::skip("this build has no CUDA, or no NCCL");
}
#endif
