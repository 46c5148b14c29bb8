// The collectives of ranks that share a process and have GPUs: what rank `rank` queues on its stream between
// the point where all ranks' inputs are ready and the point where its share is done. The same algorithms as
// core/comm/local/algorithms.h, which has the bytes of each: no two ranks write the same element, and none
// reads what another writes.
//
// Ranks on one GPU, and GPUs with peer access, read each other's memory directly. From any other GPU the
// inputs of a reduction are first copied into this rank's staging memory, a block at a time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/local/call.h"
#include "core/device/device.h"

namespace zero1::local_gpu {

using local::Call;
using Calls = std::span<const Call* const>;

/// Where a rank queues its share. Used by the rank's thread.
class Lane {
 public:
  /// `ordinals`: each rank's GPU. `device`: this rank's; it gives the staging memory, on first need.
  Lane(Device& device, std::vector<int> ordinals, int rank);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ordinals_.size()); }
  int ordinal() const { return ordinals_[static_cast<std::size_t>(rank_)]; }
  const std::vector<int>& ordinals() const { return ordinals_; }

  /// Has this rank ever staged? Then its memory may be freed only behind its stream's work.
  bool staged() const { return staging_.bytes() > 0; }

  /// Queues this rank's share of the calls of all ranks, by rank, on a stream of its GPU.
  void queue(cudaStream_t stream, Calls calls);

 private:
  void reduce_scatter(cudaStream_t stream, Calls calls);
  void all_gather(cudaStream_t stream, Calls calls);
  void all_reduce(cudaStream_t stream, Calls calls);
  void broadcast(cudaStream_t stream, Calls calls);
  void all_to_all(cudaStream_t stream, Calls calls);

  /// out = the reduction of the elements `range` of all ranks' inputs.
  void reduce(cudaStream_t stream, Calls calls, Range range, void* out);
  /// Copies between the memories of two ranks, on this rank's stream.
  void copy(cudaStream_t stream, int to_rank, void* to, int from_rank, const void* from, std::int64_t bytes);

  Device& device_;
  std::vector<int> ordinals_;
  int rank_;
  std::vector<bool> readable_;  ///< by rank: can kernels of this rank's GPU read its memory?
  DeviceMemory staging_;
};

}  // namespace zero1::local_gpu
