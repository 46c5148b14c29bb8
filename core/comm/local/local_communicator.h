// One in-process rank's end of a group.
#pragma once

#include <memory>

#include "core/comm/local/call_communicator.h"

namespace zero1 {
class Device;
}

namespace zero1::local {

/// Queues its group's rounds on CPU streams. `events` is where the events of Work come from: any CPU
/// device, shared by all ranks. Thread rule: as Communicator; the rounds run on the streams' threads.
class LocalCommunicator final : public CallCommunicator, private PrologueReducer {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank, std::shared_ptr<Device> events);

  std::string description() const override { return "in-process"; }
  PrologueReducer* prologue_reducer() override { return this; }

 private:
  Work reduce_scatter_with(const ReducePrologue& prologue, Stream& stream, TensorView out, ConstTensorView in,
                           ReduceOp op) override;
  Work launch(Stream& stream, Launch calls) override;
  std::unique_ptr<Communicator> join(const std::vector<Round::Place>& places) override;

  std::shared_ptr<Device> events_;
};

}  // namespace zero1::local
