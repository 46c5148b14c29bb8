// What the communicators of ranks in one process have in common.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/local/group.h"

namespace zero1::local {

/// Turns every collective into a Call, checks what this rank alone can check, collects coalesced calls, and
/// forms split groups. How a launch meets those of the peers and what then moves the data is the derived
/// class's business.
class CallCommunicator : public Communicator {
 public:
  CallCommunicator(std::shared_ptr<Group> group, int rank);
  ~CallCommunicator() override;  ///< leaves the group

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string_view name() const override { return group_->name(); }

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

 protected:
  /// Issues the calls, one or several coalesced, on `stream`.
  virtual Work launch(Stream& stream, Launch calls) = 0;

  /// This rank's communicator after a split, whose outcome for every rank of this group is `places`.
  virtual std::unique_ptr<Communicator> join(const std::vector<Round::Place>& places) = 0;

  /// Checks the call, then launches it, or collects it where calls are coalesced.
  Work submit(Stream& stream, Call call);

  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
  bool coalescing_ = false;
  Launch collected_;
};

}  // namespace zero1::local
