// The communicator suite on the in-process communicator: a GPU per rank, all ranks on one GPU, and GPUs that
// cannot reach each other's memory.
#include "core/comm/local_gpu/local_gpu_world.h"

#include "cuda_emulation/control.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/cuda_emulation/gpu_runs/gpu_backend.h"

namespace {

using zero1::LocalGpuWorld;

using GpuEach = zero1::test::GpuBackend<LocalGpuWorld>;

class OneGpu final : public zero1::test::GpuBackend<LocalGpuWorld> {
 public:
  std::vector<int> sizes() const override { return {1, 2, 3, 4, 7}; }

 protected:
  int gpu_of(int) const override { return 0; }
};

/// Three ranks on two GPUs: some inputs are read directly, some through the staging memory.
class WithoutPeerAccess final : public zero1::test::GpuBackend<LocalGpuWorld> {
 public:
  WithoutPeerAccess() { cuda_emulation::set_peer_access_possible(false); }
  ~WithoutPeerAccess() override { cuda_emulation::set_peer_access_possible(true); }
  std::vector<int> sizes() const override { return {2, 3, 4}; }

 protected:
  int gpu_of(int rank) const override { return rank % 2; }
};

}  // namespace

TEST_SUITE("a GPU per rank"){ZERO1_COMMUNICATOR_SUITE(GpuEach)} TEST_SUITE("all ranks on one GPU"){
    ZERO1_COMMUNICATOR_SUITE(OneGpu)} TEST_SUITE("without peer access"){
    ZERO1_COMMUNICATOR_SUITE(WithoutPeerAccess)}

TEST_CASE("more data than the staging memory holds at once") {
  WithoutPeerAccess backend;
  CHECK_NOTHROW(backend.run(2, [](zero1::test::RankContext& context) {
    const zero1::test::Spec spec{zero1::test::Kind::reduce_scatter,
                                 zero1::DType::fp32,
                                 (16 << 20) / 4 + 777,
                                 zero1::ReduceOp::sum,
                                 0,
                                 true,
                                 3};
    zero1::test::run_one(context, spec, true);
  }));
}

TEST_CASE("streams that are none of the communicator's are refused") {
  LocalGpuWorld world({1});
  const auto device = zero1::make_cuda_device({.ordinal = 1});
  const auto elsewhere = zero1::make_cuda_device({.ordinal = 0});
  const auto communicator = world.communicator(0, *device);
  const auto stream = elsewhere->create_stream(zero1::StreamKind::communication);
  CHECK_THROWS_WITH_AS(communicator->barrier(*stream),
                       "a stream of GPU 0, but this rank's communicator is for GPU 1", std::invalid_argument);
  CHECK_THROWS_AS(LocalGpuWorld(std::vector<int>(65, 0)), zero1::InputError);
}
