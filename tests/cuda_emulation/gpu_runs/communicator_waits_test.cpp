// The waits that the communicators put between streams: with all of them every result is right however late
// streams are; without one of them some seed of the random delays shows a wrong one.
#include <doctest/doctest.h>

#include <vector>

#include "core/comm/local/local_world.h"
#include "core/comm/local_gpu/local_gpu_world.h"
#include "core/comm/nccl/nccl_world.h"
#include "core/device/cuda/cuda_device.h"
#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/gpu_runs/gpu_backend.h"
#include "tests/support/sanitizers.h"

using namespace zero1;

namespace {

constexpr int ranks = 2;
constexpr int rounds = 40;
constexpr std::int64_t numel = 257;

struct LeftOut {
  std::int64_t first = -1;  ///< of the GPU's waits; -1: none is left out
  std::int64_t every = 0;
};

/// What a rank allocates. It lives until all ranks are done: where a wait is left out, a peer may still be
/// reading when this rank has finished.
class Memory {
 public:
  explicit Memory(Device& device) : device_(device) {}
  TensorView floats(std::int64_t count) {
    return blocks_.emplace_back(device_.allocate(count * 4, MemoryKind::other)).view(DType::fp32);
  }

 private:
  Device& device_;
  std::vector<DeviceMemory> blocks_;
};

/// Runs `body` with a communicator on each of two GPUs, under the delays of `seed`.
template <class World, class Body>
void run_delayed(std::uint64_t seed, const LeftOut& left_out, const Body& body) {
  cuda_emulation::set_delays(seed);
  for (int gpu = 0; gpu < ranks; ++gpu) cuda_emulation::skip_stream_wait(gpu, left_out.first, left_out.every);
  std::vector<std::unique_ptr<Device>> devices;
  for (int gpu = 0; gpu < ranks; ++gpu) devices.push_back(make_cuda_device({.ordinal = gpu}));
  World world({0, 1}, test::test_group());
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < ranks; ++rank) {
    communicators.push_back(world.communicator(rank, *devices[static_cast<std::size_t>(rank)]));
  }
  std::vector<Memory> memories;
  for (const auto& device : devices) memories.emplace_back(*device);
  run_ranks(ranks, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    body(*devices[r], *communicators[r], memories[r]);
  });
  communicators.clear();
  cuda_emulation::set_delays(0);
}

/// How many of `seen`'s rounds are not all `expected(round)`; waits for the stream.
template <class Expected>
int wrong_rounds(Device& device, Stream& stream, ConstTensorView seen, const Expected& expected) {
  std::vector<float> values(static_cast<std::size_t>(seen.numel));
  device.copy_to_host(stream, values.data(), seen);
  stream.synchronize();
  int wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto first = values.begin() + round * numel;
    wrong += std::any_of(first, first + numel, [&](float x) { return x != expected(round); });
  }
  return wrong;
}

/// Each round every rank writes its piece, gathers, and keeps its peer's. The next round overwrites.
int wrong_gathers(std::uint64_t seed, const LeftOut& left_out) {
  std::atomic<int> wrong{0};
  run_delayed<LocalGpuWorld>(seed, left_out, [&](Device& device, Communicator& communicator, Memory& memory) {
    const int rank = communicator.rank();
    const auto stream = device.create_stream(StreamKind::communication);
    const TensorView both = memory.floats(2 * numel), seen = memory.floats(rounds * numel);
    const TensorView own = both.slice(Range{0, numel}.shifted(rank * numel)),
                     peers = both.slice(Range{0, numel}.shifted((1 - rank) * numel));
    device.ops().fill(*stream, both, -1);
    for (int round = 0; round < rounds; ++round) {
      device.ops().fill(*stream, own, static_cast<float>(2 * round + rank));
      communicator.all_gather(*stream, both, own);
      device.ops().cast(*stream, seen.slice(Range{0, numel}.shifted(round * numel)), peers);
    }
    wrong += wrong_rounds(device, *stream, seen, [&](int round) { return 2.0F * round + 1.0F - rank; });
  });
  return wrong;
}

/// Maxima, which need staging memory, on two streams in turn. Each stream has its own data.
template <class World>
int wrong_maxima(std::uint64_t seed, const LeftOut& left_out) {
  std::atomic<int> wrong{0};
  run_delayed<World>(seed, left_out, [&](Device& device, Communicator& communicator, Memory& memory) {
    struct Side {
      std::unique_ptr<Stream> stream;
      TensorView data, seen;
    };
    std::vector<Side> sides;
    for (const StreamKind kind : {StreamKind::communication, StreamKind::compute}) {
      sides.push_back({device.create_stream(kind), memory.floats(numel), memory.floats(rounds * numel)});
    }
    const auto sent = [&](int round, int side, int rank) {
      return static_cast<float>(4 * round + 2 * side + rank);
    };
    for (int round = 0; round < rounds; ++round) {
      for (int side = 0; side < 2; ++side) {
        const Side& s = sides[static_cast<std::size_t>(side)];
        device.ops().fill(*s.stream, s.data, sent(round, side, communicator.rank()));
        communicator.all_reduce(*s.stream, s.data, ReduceOp::max);
        device.ops().cast(*s.stream, s.seen.slice(Range{0, numel}.shifted(round * numel)), s.data);
      }
    }
    for (int side = 0; side < 2; ++side) {
      const Side& s = sides[static_cast<std::size_t>(side)];
      wrong += wrong_rounds(device, *s.stream, s.seen, [&](int round) { return sent(round, side, 1); });
    }
  });
  return wrong;
}

template <class Wrong>
void check_waits(const char* what, const Wrong& wrong, std::initializer_list<LeftOut> waits) {
  CAPTURE(what);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) CHECK(wrong(seed, LeftOut{}) == 0);
  for (const LeftOut& wait : waits) {
    if (test::under_tsan) break;  // to TSan each is a data race and ends the program
    CAPTURE(wait.first);
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 8 && found == 0; ++seed) found += wrong(seed, wait);
    CHECK(found > 0);
  }
  for (int gpu = 0; gpu < ranks; ++gpu) cuda_emulation::skip_stream_wait(gpu, -1);
}

}  // namespace

TEST_CASE("in-process ranks wait for their peers' inputs, and until their peers have read theirs") {
  check_waits("gathers", wrong_gathers, {{0, 2}, {1, 2}});
}

TEST_CASE("launches of one communicator follow each other on whatever streams they are") {
  check_waits("NCCL", wrong_maxima<NcclWorld>, {{0, 1}});
  cuda_emulation::set_peer_access_possible(false);
  check_waits("in-process", wrong_maxima<LocalGpuWorld>, {{2, 3}});
  cuda_emulation::set_peer_access_possible(true);
}
