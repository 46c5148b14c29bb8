// Collectives among the ranks of one process group.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/comm/reduce_prologue.h"
#include "core/comm/work.h"
#include "core/device/tensor_view.h"

namespace zero1 {

enum class ReduceOp : std::uint8_t { sum, average, max };

std::string_view name(ReduceOp op);

/// One rank's end of a process group. All ranks of the group call the same collectives in the same
/// order with the same sizes and dtypes; ranks that do not get an Error that shows every rank's call.
/// A rank that throws calls `abort`; one that is destroyed early or dies makes the others fail with a
/// PeerError that names it. Collectives are queued on the given stream (in practice the rank's
/// communication stream) and return at once; errors surface at Work::wait, or when the stream or an
/// event after the collective is synchronised (an inline stream runs at once: there they come out of the
/// call). A group that has failed stays failed. Arguments that are wrong on this rank alone (sizes that do
/// not fit each other, buffers that overlap, a root that does not exist, a stream of another device) throw
/// std::invalid_argument from the call. Buffers must stay valid until the collective is done. One host
/// thread at a time uses a communicator.
///
/// dtypes: fp32, bf16, fp16, and fp64 for scalars. On CPU, sums of low-precision elements accumulate in
/// fp32 in rank order and are rounded once; fp32 sums run in rank order; `average` divides the sum by
/// size() before rounding. All elements of a NaN or infinity propagate, also through max.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The group's name in errors and traces: "data-parallel".
  virtual std::string_view name() const = 0;

  /// For summaries: "in-process", "in-process + link model (10 Gbit/s, 5 us)", "NCCL 2.27".
  virtual std::string description() const = 0;

  /// Do its times include a modelled bandwidth or latency? Traces and screens label them so.
  virtual bool modelled() const { return false; }

  /// out = the rank()-th of size() equal pieces of the reduction of all ranks' `in`. in.numel ==
  /// out.numel * size(). `out` may be exactly that piece of `in` (in place), else they are disjoint.
  virtual Work reduce_scatter(Stream& stream, TensorView out, ConstTensorView in, ReduceOp op) = 0;

  /// The same collective with work on the input as it is read, where that costs less than passes over
  /// memory before it. A backend may ignore this, and most do: null.
  virtual PrologueReducer* prologue_reducer() { return nullptr; }

  /// out = all ranks' `in`, concatenated in rank order. out.numel == in.numel * size(). `in` may be
  /// exactly the rank()-th piece of `out` (in place), else they are disjoint.
  virtual Work all_gather(Stream& stream, TensorView out, ConstTensorView in) = 0;

  /// data = the reduction of all ranks' data, the same bits on every rank.
  virtual Work all_reduce(Stream& stream, TensorView data, ReduceOp op) = 0;

  virtual Work broadcast(Stream& stream, TensorView data, int root) = 0;

  /// Piece j of `in` (send_counts[j] elements, pieces side by side) goes to rank j; `out` receives
  /// receive_counts[j] elements from rank j, in rank order. Disjoint buffers.
  virtual Work all_to_all(Stream& stream, TensorView out, std::span<const std::int64_t> receive_counts,
                          ConstTensorView in, std::span<const std::int64_t> send_counts) = 0;

  /// Done when all ranks' streams have reached it.
  virtual Work barrier(Stream& stream) = 0;

  /// Between these, collectives are collected; `end_coalescing` issues them as one launch on `stream`
  /// and returns one Work for all; the single calls return an empty Work and ignore their stream. Kinds,
  /// dtypes and sizes may be mixed. The calls of one launch run in no particular order, so none may touch
  /// memory that another one writes. Use CoalescingScope.
  virtual void begin_coalescing() = 0;
  virtual Work end_coalescing(Stream& stream) = 0;

  /// Collective over this group, blocking: ranks with the same color form a new group, ordered by
  /// (key, rank). `name` is the new group's name; ranks of one color give the same.
  virtual std::unique_ptr<Communicator> split(int color, int key, std::string_view name) = 0;

  /// Makes every rank's pending and future collectives fail with a PeerError naming this rank and
  /// `reason`: of this group, of all groups split from it, and of the group it was split from with all
  /// of that one's, since a rank that stops in one stops in all. A collective whose ranks have all
  /// arrived still completes. PeerError::failed_rank counts as in the group that was not split from
  /// another. Any thread may call it; the first reason is kept.
  virtual void abort(std::string_view reason) noexcept = 0;
};

/// Coalesces the collectives issued on a communicator during its life. Megatron: `_coalescing_manager`.
/// If it is destroyed without `finish` (an exception passed), the collected calls are not issued and the
/// group is aborted, since its peers wait for them.
class CoalescingScope {
 public:
  CoalescingScope(Communicator& communicator, Stream& stream) : communicator_(communicator), stream_(stream) {
    communicator_.begin_coalescing();
  }
  CoalescingScope(const CoalescingScope&) = delete;
  CoalescingScope& operator=(const CoalescingScope&) = delete;
  ~CoalescingScope() {
    if (!finished_) communicator_.abort("a coalesced launch was abandoned");
  }

  Work finish() {
    finished_ = true;
    return communicator_.end_coalescing(stream_);
  }

 private:
  Communicator& communicator_;
  Stream& stream_;
  bool finished_ = false;
};

}  // namespace zero1
