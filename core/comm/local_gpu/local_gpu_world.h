// Ranks as threads of one process, on one or more GPUs, without NCCL.
//
// How a collective is ordered, without a device synchronisation and without a kernel that waits:
//
//   rank 0's stream   … record ready₀ ─┐            ┌─ [wait ready₀ ready₁] share₀, record done₀ ─┐      ┌─
//   [wait done₀ done₁] … host                               ├─ all here ─┤ ├─ all ┤ rank 1's stream   …
//   record ready₁ ─┘            └─ [wait ready₀ ready₁] share₁, record done₁ ─┘      └─ [wait done₀ done₁] …
//
// A stream can only wait for a point that has been recorded already, so the hosts meet twice while they
// issue: once to show their `ready` points, and once their `done` points. They meet as threads, for the
// time it takes the slowest host to issue the same call; the GPUs run on meanwhile, and no host waits for
// one. In return every wait refers to work that was submitted before it. The order of submission is thus
// a valid schedule by itself, and ranks that share a GPU cannot block each other, however few hardware
// queues their streams are mapped to (CUDA_DEVICE_MAX_CONNECTIONS). A kernel that spins until its peers
// arrive, as NCCL's do, would not have that property, which is why NCCL refuses two ranks on one GPU.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/local/local_world.h"
#include "core/device/device.h"

namespace zero1 {

/// The shared side of an in-process group on GPUs. Reductions have the bits of LocalWorld's, on any
/// assignment of ranks to GPUs. Errors too are LocalWorld's, except that those of a collective come out of
/// the call that issues it, which blocks until all ranks have issued theirs.
class LocalGpuWorld {
 public:
  /// `ordinals`: each rank's GPU; several ranks may share one. Throws InputError for more than 64 ranks.
  explicit LocalGpuWorld(std::vector<int> ordinals, LocalWorldOptions options = {});
  LocalGpuWorld(const LocalGpuWorld&) = delete;
  LocalGpuWorld& operator=(const LocalGpuWorld&) = delete;
  ~LocalGpuWorld();  ///< ranks whose communicator was never made count as having left

  int size() const;

  /// The communicator of one rank; called once per rank, from any thread. `device` is the rank's CUDA
  /// device, on its GPU, and outlives the communicator and those split from it.
  std::unique_ptr<Communicator> communicator(int rank, Device& device);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1
