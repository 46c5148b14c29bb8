// Everything a rank carries with it, in one object instead of globals.
#pragma once

#include "core/comm/communicator.h"
#include "core/device/device.h"
#include "core/trace/tracer.h"

namespace zero1 {

/// The process groups of the distributed optimizer. Megatron: `ProcessGroupCollection`.
struct ProcessGroups {
  Communicator* data_parallel = nullptr;         ///< all ranks that hold the same dense parameters
  Communicator* expert_data_parallel = nullptr;  ///< those that hold the same experts; null: no experts
};

/// One rank. Holds references only: the owner keeps the parts alive while the pipeline uses them.
/// All calls of the pipeline come from the rank's thread.
struct RankContext {
  Device& device;
  Stream& compute;
  Stream& communication;
  ProcessGroups groups;
  trace::Tracer& tracer;

  int rank() const { return groups.data_parallel->rank(); }
  int dp_size() const { return groups.data_parallel->size(); }
};

}  // namespace zero1
