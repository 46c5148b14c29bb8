// One rank's end of an in-process group on GPUs.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/gpu/cuda_resources.h"
#include "core/comm/local/call_communicator.h"
#include "core/comm/local_gpu/collectives.h"

namespace zero1::local_gpu {

/// Queues its share of every launch on the rank's stream; local_gpu_world.h tells how the ranks' streams
/// are ordered.
class LocalGpuCommunicator final : public local::CallCommunicator {
 public:
  /// `ordinals`: each rank's GPU.
  LocalGpuCommunicator(std::shared_ptr<local::Group> group, int rank, Device& device,
                       std::vector<int> ordinals);
  ~LocalGpuCommunicator() override;

  std::string description() const override;

 private:
  Work launch(Stream& stream, local::Launch calls) override;
  std::unique_ptr<Communicator> join(const std::vector<local::Round::Place>& places) override;
  void queue_share(CudaStream& stream, const local::Round& round);

  Device& device_;
  Lane lane_;
  std::shared_ptr<Event> last_;  ///< the end of the last launch
  cudaStream_t last_stream_ = nullptr;
};

}  // namespace zero1::local_gpu
