// Ranks as threads of one process, a GPU each, over NCCL.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/local/local_world.h"
#include "core/device/device.h"

namespace zero1 {

/// The shared side of an NCCL group within one process. The ranks' calls are compared on the host before
/// NCCL sees them, so that mismatches, ranks that leave and ranks that throw give the errors of LocalWorld,
/// out of the call that issues the collective, which blocks until all ranks have issued theirs. What goes
/// wrong on the devices after that (NCCL's own errors, a GPU that stands still for the time-out) is found by
/// a watching thread; it fails the group, aborts NCCL, and whoever synchronises a stream or event of the
/// ranks' devices then gets the PeerError.
///
/// Sums are NCCL's: in an order of its choice, the same bits on every rank and rerun on the same machine.
class NcclWorld {
 public:
  /// `ordinals`: each rank's GPU, all different. Creates NCCL's communicators without blocking and polls
  /// them for the time-out. Throws InputError where ranks would share a GPU, NcclError where NCCL fails.
  explicit NcclWorld(std::vector<int> ordinals, LocalWorldOptions options = {});
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;
  ~NcclWorld();  ///< ranks whose communicator was never made count as having left

  int size() const;

  /// The communicator of one rank; called once per rank, from any thread. `device` is the rank's CUDA
  /// device, on its GPU, and outlives the communicator and those split from it.
  std::unique_ptr<Communicator> communicator(int rank, Device& device);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1
