// One rank's end of an NCCL group.
#pragma once

#include <memory>

#include "core/comm/gpu/cuda_resources.h"
#include "core/comm/local/call_communicator.h"
#include "core/comm/nccl/clique.h"
#include "core/comm/nccl/watch.h"
#include "core/device/device.h"

namespace zero1::nccl {

/// Compares the ranks' calls on the host, then hands them to NCCL, a coalesced launch as one NCCL group.
///
/// NCCL's maximum ignores a NaN where another rank has a number. A run that lost a NaN that way would train
/// on, so maxima are gathered by NCCL and reduced here; the pipeline uses them for a few scalars only.
class NcclCommunicator final : public local::CallCommunicator {
 public:
  /// `clique` is the group's, with this rank's communicator made. `device` is on GPU `ordinal`.
  NcclCommunicator(std::shared_ptr<local::Group> group, int rank, Device& device, int ordinal,
                   std::shared_ptr<Watch> watch, std::shared_ptr<Clique> clique);
  ~NcclCommunicator() override;

  std::string description() const override;

 private:
  Work launch(Stream& stream, local::Launch calls) override;
  std::unique_ptr<Communicator> join(const std::vector<local::Round::Place>& places) override;
  void issue(ncclComm_t comm, const local::Call& call, TensorView staging, cudaStream_t stream);
  void issue_all_to_all(ncclComm_t comm, const local::Call& call, cudaStream_t stream);
  void issue_maximum(ncclComm_t comm, const local::Call& call, TensorView staging, cudaStream_t stream);

  /// Room for what the calls that are maxima gather, by call; empty views for the others.
  std::vector<TensorView> stage(const local::Launch& calls);

  Device& device_;
  int ordinal_;
  std::shared_ptr<Watch> watch_;
  std::shared_ptr<Clique> clique_;
  DeviceMemory barrier_;         ///< fp32[1]: what a barrier reduces
  DeviceMemory staging_;         ///< grows to what the largest launch needs
  std::shared_ptr<Event> last_;  ///< the end of the last launch
  cudaStream_t last_stream_ = nullptr;
};

}  // namespace zero1::nccl
