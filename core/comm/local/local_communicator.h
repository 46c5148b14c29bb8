// One in-process rank's end of a group.
#pragma once

#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "core/comm/local/group.h"

namespace zero1 {
class Device;
}

namespace zero1::local {

/// Queues its group's rounds on CPU streams. `events` is where the events of Work come from: any CPU
/// device, shared by all ranks. Thread rule: as Communicator; the rounds run on the streams' threads.
class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Group> group, int rank, std::shared_ptr<Device> events);
  ~LocalCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string_view name() const override { return group_->name(); }
  std::string description() const override { return "in-process"; }

  Work reduce_scatter(Stream& stream, TensorView out, ConstTensorView in, ReduceOp op) override;
  Work all_gather(Stream& stream, TensorView out, ConstTensorView in) override;
  Work all_reduce(Stream& stream, TensorView data, ReduceOp op) override;
  Work broadcast(Stream& stream, TensorView data, int root) override;
  Work all_to_all(Stream& stream, TensorView out, std::span<const std::int64_t> receive_counts,
                  ConstTensorView in, std::span<const std::int64_t> send_counts) override;
  Work barrier(Stream& stream) override;

  void begin_coalescing() override;
  Work end_coalescing(Stream& stream) override;

  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override;
  void abort(std::string_view reason) noexcept override;

 private:
  Work submit(Stream& stream, Call call);
  Work launch(Stream& stream, Launch calls);

  std::shared_ptr<Group> group_;
  int rank_;
  std::shared_ptr<Device> events_;
  bool coalescing_ = false;
  Launch collected_;
};

}  // namespace zero1::local
