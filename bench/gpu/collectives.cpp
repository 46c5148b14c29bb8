// Collectives of both communicators.
//
//   on one GPU   bytes that all ranks together must read and write, S the bucket's bytes and n the ranks:
//                reduce-scatter (n+1) S, all-gather in place 2(n-1) S, all-reduce 2n S; bound: copies
//   on several   nccl-tests' bus bandwidth: reduce-scatter and all-gather S (n-1)/n over time, all-reduce
//                twice that; bound: copies from one GPU to another
#include <fmt/format.h>

#include <barrier>
#include <functional>
#include <memory>

#include "bench/gpu/sections.h"
#include "core/base/clock.h"
#include "core/comm/local/local_world.h"
#include "core/comm/local_gpu/local_gpu_world.h"
#include "core/device/cuda/cuda_device.h"
#ifdef ZERO1_WITH_NCCL
#include "core/comm/nccl/nccl_world.h"
#endif

namespace zero1::bench {
namespace {

/// What one rank measures with.
struct Rank {
  Device& device;
  Communicator& communicator;
  Stream& stream;
  const DeviceMemory& bucket;

  TensorView piece(TensorView whole) const {
    const std::int64_t numel = whole.numel / communicator.size();
    return whole.slice(Range{0, numel}.shifted(communicator.rank() * numel));
  }
};

struct Topic {
  const char* name;
  double moved;  ///< bytes that must move on one GPU / S
  double bus;    ///< bus bytes / S
  std::function<void(const Rank&)> once;
};

std::vector<Topic> topics(double n) {
  return {
      {"reduce-scatter fp32", n + 1, (n - 1) / n,
       [](const Rank& r) {
         const TensorView whole = r.bucket.view(DType::fp32);
         r.communicator.reduce_scatter(r.stream, r.piece(whole), whole, ReduceOp::average);
       }},
      {"reduce-scatter bf16", n + 1, (n - 1) / n,
       [](const Rank& r) {
         const TensorView whole = r.bucket.view(DType::bf16);
         r.communicator.reduce_scatter(r.stream, r.piece(whole), whole, ReduceOp::average);
       }},
      {"all-gather bf16", 2 * (n - 1), (n - 1) / n,
       [](const Rank& r) {
         const TensorView whole = r.bucket.view(DType::bf16);
         r.communicator.all_gather(r.stream, whole, r.piece(whole));
       }},
      {"all-reduce fp32", 2 * n, 2 * (n - 1) / n,
       [](const Rank& r) {
         r.communicator.all_reduce(r.stream, r.bucket.view(DType::fp32), ReduceOp::average);
       }},
  };
}

/// From the common start to the last rank's end, per call: the best of the rounds.
template <class World>
double best_seconds(World& world, const std::vector<int>& ordinals, const Sizes& sizes, std::int64_t bytes,
                    const std::function<void(const Rank&)>& once) {
  const int ranks = static_cast<int>(ordinals.size());
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(make_cuda_device({.ordinal = ordinals[static_cast<std::size_t>(rank)], .rank = rank}));
    communicators.push_back(world.communicator(rank, *devices.back()));
  }
  std::barrier together(ranks);
  std::vector<std::int64_t> begin_ns(ordinals.size()), end_ns(ordinals.size());
  double best = 1e30;
  run_ranks(ranks, [&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    const auto stream = devices[i]->create_stream(StreamKind::communication);
    const DeviceMemory bucket = devices[i]->allocate(bytes, MemoryKind::communication);
    devices[i]->ops().fill(*stream, bucket.view(DType::fp32), 1);
    const Rank own{*devices[i], *communicators[i], *stream, bucket};
    for (int round = 0; round <= sizes.rounds; ++round) {  // the first one warms up
      stream->synchronize();
      together.arrive_and_wait();
      begin_ns[i] = now_ns();
      for (int repeat = 0; repeat < sizes.repeats; ++repeat) once(own);
      stream->synchronize();
      end_ns[i] = now_ns();
      together.arrive_and_wait();
      if (rank != 0 || round == 0) continue;
      const auto begin = *std::min_element(begin_ns.begin(), begin_ns.end());
      const auto end = *std::max_element(end_ns.begin(), end_ns.end());
      best = std::min(best, static_cast<double>(end - begin) * 1e-9 / sizes.repeats);
    }
  });
  return best;
}

template <class World>
void measure(Figures& figures, const Sizes& sizes, const Limits& limits, const std::vector<int>& ordinals) {
  const bool one_gpu = std::all_of(ordinals.begin(), ordinals.end(), [](int gpu) { return gpu == 0; });
  const auto n = static_cast<std::int64_t>(ordinals.size());
  for (const std::int64_t mib : sizes.bucket_mib) {
    const std::int64_t bytes = (mib << 20) / (8 * n) * 8 * n;  // whole elements in every piece
    for (const Topic& topic : topics(static_cast<double>(n))) {
      World world(ordinals);
      const double seconds = best_seconds(world, ordinals, sizes, bytes, topic.once);
      const double factor = one_gpu ? topic.moved : topic.bus;
      Figure figure;
      figure.name = fmt::format("{}, {} ranks, {} MiB", topic.name, n, mib);
      figure.value = factor * static_cast<double>(bytes) / seconds * 1e-9;
      figure.unit = "GB/s";
      figure.bound = one_gpu ? limits.copy_gb_s : limits.peer_gb_s;
      figure.bound_name = one_gpu ? "copy" : "copy between GPUs";
      figure.note = fmt::format("{:.4g} x S, {:.1f} us", factor, seconds * 1e6);
      figures.add(figure);
    }
  }
}

}  // namespace

void measure_collectives(Figures& figures, const Sizes& sizes, const Limits& limits) {
  const int gpus = cuda_device_count();
  for (const int ranks : {2, 4}) {
    figures.begin_section(fmt::format("In-process collectives, {} ranks on one GPU", ranks));
    measure<LocalGpuWorld>(figures, sizes, limits, std::vector<int>(static_cast<std::size_t>(ranks), 0));
  }
  std::vector<int> each;
  for (int gpu = 0; gpu < gpus; ++gpu) each.push_back(gpu);
  const char* only_one = "needs two GPUs, and one is visible";
  figures.begin_section("In-process collectives, a rank per GPU: bus bandwidth");
  gpus > 1 ? measure<LocalGpuWorld>(figures, sizes, limits, each) : figures.skip(only_one);
  figures.begin_section("NCCL's collectives, a rank per GPU: bus bandwidth");
#ifdef ZERO1_WITH_NCCL
  gpus > 1 ? measure<NcclWorld>(figures, sizes, limits, each) : figures.skip(only_one);
#else
  figures.skip("this build is without NCCL");
#endif
}

}  // namespace zero1::bench
