// Every wait between streams is needed: a run without one of them is wrong, and it shows.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/comm/local/local_world.h"
#include "core/comm/local_gpu/local_gpu_world.h"
#include "core/device/cuda/cuda_check.h"
#include "core/device/cuda/cuda_device.h"
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
  cuda_emulation::set_lag(lagging, std::chrono::milliseconds(200));
  // On both ranks, as if the line were missing: else the peer's wait would hurry this rank's streams.
  for (const int gpu : {0, 1}) cuda_emulation::skip_stream_wait(gpu, skipped_wait);
  try {
    outcome += fmt::format("{:x}", train(config, observer, make_cuda_machine).param_hash);
  } catch (const Error& error) {
    outcome += error.what();
  }
  return outcome;
}

}  // namespace

// Over NCCL the only waits are the pipeline's: with one bucket, ten in a step.
TEST_CASE("a run that lacks one of its waits between streams comes out wrong") {
  TrainConfig config = test::overlapped_gpt("nccl", 2, steps);
  config.num_layers = 1;
  config.data_parallel.bucket_size_elems.reset();      // or another bucket's wait would imply this one's
  config.data_parallel.check_for_nan_in_grad = false;  // or the host's wait for its result would
  const std::string expected = outcome_of(config, Lagging::none, -1);
  REQUIRE(cuda_emulation::stream_waits(0) == 10 * steps);
  // What cannot show in the values, by position in the step:
  const std::set<std::int64_t> implied{
      1,  // compute waits for the bucket's reduction: implied by 3, with no work between them
      2,  // communication waits for the loss: implied by 0, as compute has done nothing since
      3,  // compute waits for the loss's reduction: implied by 7, before anybody reads the loss
      4,  // communication waits for the gradients' largest value, and
      5,  // compute for its reduction: a bound, of which only the power of two counts
  };
  for (std::int64_t position = 0; position < 10; ++position) {
    if (implied.count(position) > 0) continue;
    CAPTURE(position);
    bool noticed = false;
    for (const Lagging lagging : {Lagging::compute, Lagging::communication}) {
      noticed = noticed || outcome_of(config, lagging, 10 + position) != expected;
    }
    CHECK(noticed);
  }
  cuda_emulation::set_lag(Lagging::none);
  for (const int gpu : {0, 1}) cuda_emulation::skip_stream_wait(gpu, -1);
}

TEST_CASE("a rank that does not wait for its peer's inputs reads what was there before") {
  for (const bool skip : {false, true}) {
    std::vector<std::unique_ptr<Device>> devices;
    for (const int gpu : {0, 1}) devices.push_back(make_cuda_device({.ordinal = gpu}));
    LocalGpuWorld world({0, 1});
    cuda_emulation::skip_stream_wait(0, skip ? 0 : -1);
    float seen = 0;
    run_ranks(2, [&](int rank) {
      Device& device = *devices[static_cast<std::size_t>(rank)];
      const auto communicator = world.communicator(rank, device);
      const auto stream = device.create_stream(StreamKind::communication);
      const DeviceMemory memory = device.allocate(2 * 4, MemoryKind::other);
      const TensorView both = memory.view(DType::fp32);
      device.ops().fill(*stream, both, -1);
      stream->synchronize();
      if (rank == 1) {  // its input comes late
        ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
            dynamic_cast<CudaStream&>(*stream).handle(),
            [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }, nullptr));
      }
      device.ops().fill(*stream, both.slice({rank, rank + 1}), 5);
      communicator->all_gather(*stream, both, both.slice({rank, rank + 1})).wait();
      float values[2];
      device.copy_to_host(*stream, values, both);
      stream->synchronize();
      if (rank == 0) seen = values[1];
    });
    CHECK(seen == (skip ? -1 : 5));
  }
  cuda_emulation::skip_stream_wait(0, -1);
}
