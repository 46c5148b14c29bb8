// The communicator suite on NCCL, and what only NCCL can do wrong: errors and stand-stills on the devices.
#include "core/comm/nccl/nccl_world.h"

#include <nccl.h>

#include <fmt/format.h>

#include <future>
#include <thread>

#include "core/comm/local/local_world.h"
#include "core/device/cuda/cuda_check.h"
#include "cuda_emulation/control.h"
#include "tests/conformance/communicator_suite.h"
#include "tests/cuda_emulation/gpu_runs/gpu_backend.h"

using namespace zero1;
using namespace std::chrono_literals;

namespace {

class NcclBackend final : public test::GpuBackend<NcclWorld> {
 public:
  bool exact() const override { return false; }  // NCCL adds in an order of its choice
};

struct Rank {
  Rank(NcclWorld& world, int rank)
      : device(make_cuda_device({.ordinal = rank})),
        stream(device->create_stream(StreamKind::communication)),
        memory(device->allocate(7 * 4, MemoryKind::other)),
        communicator(world.communicator(rank, *device)) {}

  Work reduce() { return communicator->all_reduce(*stream, memory.view(DType::fp32), ReduceOp::sum); }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  DeviceMemory memory;
  std::unique_ptr<Communicator> communicator;
};

/// Runs one all-reduce on both ranks, `before` it on rank 1's stream, and gives each rank's error.
std::vector<std::string> errors_of_two(NcclWorld& world, std::vector<Rank>& ranks,
                                       const std::function<void()>& before,
                                       const std::function<void()>& after) {
  std::vector<std::string> errors(2);
  run_ranks(world.size(), [&](int rank) {
    Rank& own = ranks[static_cast<std::size_t>(rank)];
    if (rank == 1) before();
    try {
      const Work work = own.reduce();
      // An event of the pipeline's, recorded behind the collective, is what most code waits for.
      const auto event = own.device->create_event();
      own.stream->record(*event);
      if (rank == 0) {
        event->synchronize();
      } else {
        after();
        work.wait();
      }
    } catch (const PeerError& error) {
      errors[static_cast<std::size_t>(rank)] = fmt::format("{} {}", error.failed_rank(), error.what());
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  return errors;
}

}  // namespace

ZERO1_COMMUNICATOR_SUITE(NcclBackend)

TEST_CASE("two ranks on one GPU are refused, and told what to use") {
  CHECK_THROWS_WITH_AS(NcclWorld({0, 1, 0}),
                       "NCCL needs a GPU for each rank; --comm local lets ranks share one", InputError);
}

TEST_CASE("an error of NCCL's reaches whoever waits, whenever it shows") {
  using cuda_emulation::Shows;
  for (const Shows shows : {Shows::while_it_runs, Shows::at_once, Shows::as_result}) {
    CAPTURE(static_cast<int>(shows));
    NcclWorld world({0, 1}, test::test_group());
    std::vector<Rank> ranks;
    for (int rank = 0; rank < 2; ++rank) ranks.emplace_back(world, rank);
    cuda_emulation::fail_next_collective(1, ncclRemoteError, shows);
    const auto begin = std::chrono::steady_clock::now();
    const auto errors = errors_of_two(
        world, ranks, [] {}, [] {});
    CHECK_MESSAGE(test::contains(errors[1], "remote process exited"), errors[1]);
    // With no result, whoever waits is told; and what is on the stream does not keep it for ever.
    if (shows != Shows::as_result) {
      CHECK_MESSAGE(test::contains(errors[1], "1 rank 1 of 'test-group' has stopped"), errors[1]);
    }
    CHECK_THROWS_AS(ranks[1].stream->synchronize(), PeerError);
    CHECK_THROWS_AS(ranks[0].reduce(), PeerError);  // its own share had ended; now it is told
    CHECK(std::chrono::steady_clock::now() - begin < 10s);
  }
}

TEST_CASE("a stream that never comes to the collective is named after the time-out") {
  NcclWorld world({0, 1}, test::test_group(300ms));
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.emplace_back(world, rank);
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  const auto block = [&] {
    const auto handle = dynamic_cast<CudaStream&>(*ranks[1].stream).handle();
    ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
        handle, [](void* future) { static_cast<std::shared_future<void>*>(future)->wait(); }, &released));
  };
  const auto wait_and_release = [&] {
    std::this_thread::sleep_for(4s);  // the time-out, and the grace that a failed group's launches have
    release.set_value();
  };
  const auto errors = errors_of_two(world, ranks, block, wait_and_release);
  for (const std::string& error : errors) {
    for (const char* part : {"1 rank 1 of 'test-group' has stopped: time-out after", "rank 0: all_reduce",
                             "under way", "its stream has not reached it"}) {
      CHECK_MESSAGE(test::contains(error, part), error);
    }
  }
}

TEST_CASE("groups are split off while the watch looks at them") {
  NcclWorld world({0, 1}, test::test_group());
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) ranks.emplace_back(world, rank);
  run_ranks(world.size(), [&](int rank) {
    Rank& own = ranks[static_cast<std::size_t>(rank)];
    std::vector<std::unique_ptr<Communicator>> made;
    // The watch looks every 25 ms, so it finds some of them under way.
    for (int i = 0; i < 40; ++i) {
      made.push_back(own.communicator->split(0, rank, fmt::format("split {}", i)));
    }
    own.communicator = std::move(made.back());
    own.reduce().wait();
  });
}
