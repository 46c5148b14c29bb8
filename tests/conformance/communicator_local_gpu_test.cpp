// The communicator suite on this machine's GPUs, without NCCL: all ranks on one GPU, and dealt out over all.
#if ZERO1_HAVE_CUDA
#include "core/comm/local_gpu/local_gpu_world.h"
#include "tests/conformance/communicator_gpu_backend.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/support/gpus.h"

namespace {

const int gpus = zero1::test::gpus_or_skip(1);

class OneGpu final : public zero1::test::GpuWorldBackend<zero1::LocalGpuWorld> {
  int gpu_of(int) const override { return 0; }
};

class AllGpus final : public zero1::test::GpuWorldBackend<zero1::LocalGpuWorld> {
  int gpu_of(int rank) const override { return rank % gpus; }
};

}  // namespace

TEST_SUITE("all ranks on one GPU"){ZERO1_COMMUNICATOR_SUITE(OneGpu)} TEST_SUITE("ranks on all GPUs"){
    ZERO1_COMMUNICATOR_SUITE(AllGpus)}
#else
#include <doctest/doctest.h>

#include "tests/support/skip.h"

TEST_CASE("in-process ranks on GPUs") {
  zero1::test::skip("this build has no CUDA");
}
#endif
