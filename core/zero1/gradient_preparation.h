// What happens to gradients before they are reduced: checks and scaling.
// Megatron: `check_grads` and the scaling in `start_grad_sync` of `_ParamAndGradBucketGroup`.
#pragma once

#include <span>
#include <vector>

#include "core/zero1/config.h"
#include "core/zero1/context.h"
#include "core/zero1/param_and_grad_buffer.h"

namespace zero1 {

/// Checks the gradients of a group's buckets for NaN, infinities and large magnitudes, parameter by
/// parameter, and multiplies them by gradient_scaling_factor.
///
/// There are two ways, with the same bits in this rank's shard afterwards. Passes over memory before the
/// collective leave prepared gradients in the buckets, where they can be looked at. A reduce-scatter's
/// prologue (core/comm/reduce_prologue.h) prepares them on their way into the sum and leaves memory as it
/// is: one pass less. The second is taken where the communicator has it and nobody watches the run. No other
/// code knows which it was.
class GradientPreparation {
 public:
  /// What is referred to must outlive this.
  GradientPreparation(RankContext& context, const Layout& layout, std::span<const BucketRef> buckets,
                      Communicator& communicator, const DataParallelConfig& config);

  /// Queues the passes on the communication stream, or leaves the work to the prologues: call before a
  /// reduction by `collective`, reduce_scatter or all_reduce.
  void start(trace::Collective collective);

  /// Issues the reduce-scatter of the group's bucket number `bucket` into this rank's shard, in place, with
  /// the prologue if the passes were left to it.
  void reduce_scatter(int bucket, ReduceOp op);

  /// Where checks are on: blocks the host until the reduction is done, and throws Error naming rank, bucket
  /// and parameter when one failed.
  void finish(const Work& reduction) const;

 private:
  struct Bucket {
    BucketRef ref;
    float factor = 1;           ///< gradient_scaling_factor
    std::vector<Range> params;  ///< in bucket coordinates, in the order of its layout
    std::int64_t first = 0;     ///< the position of its first parameter's statistics
  };

  float gradient_scaling_factor(const BucketRef& bucket) const;
  bool checks() const { return !host_stats_.empty(); }
  ReducePrologue prologue(const Bucket& bucket);
  void run_passes();
  void check_and_scale(const Bucket& bucket);
  void check(int param, double largest, double non_finite) const;

  RankContext& context_;
  const Layout& layout_;
  Communicator& communicator_;
  PrologueReducer* prologue_reducer_;  ///< null: this backend has none
  const DataParallelConfig& config_;
  std::vector<Bucket> buckets_;
  DeviceMemory device_stats_;       ///< fp64 [params of the group][2]: largest magnitude, non-finite count
  std::vector<double> host_stats_;  ///< the same; empty: no checks
  bool by_prologue_ = false;
};

}  // namespace zero1
