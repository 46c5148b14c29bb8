// The global gradient norm over owned elements, the same bits for every bucket size.
// Megatron: `get_grad_norm_fp32` in megatron/core/optimizer/clip_grads.py.
#pragma once

#include <vector>

#include "core/zero1/context.h"

namespace zero1 {

/// What all ranks agree on about this iteration's gradients.
struct GradNorm {
  double norm = 0;              ///< L2 over all logical elements; 0 when non_finite > 0
  std::int64_t non_finite = 0;  ///< NaN and infinite elements over all ranks
};

/// Each logical element is counted once (by its owner), padding never. Fp32 sums of squares would change
/// with the order in which shards and buckets cut the elements; here each square is cut into slices on
/// grids fixed by the largest gradient, so that all sums are exact and any order gives the same bits
/// (Ops::sum_of_squares). The largest gradient is known only after all have been read: its grids are guessed
/// to be those of the iteration before, which most often holds, and else the gradients are read again.
class GradNormReducer {
 public:
  /// `total_elems`: at least the number of elements over all ranks. `reduce`: false when every rank is
  /// given every element (plain data parallelism without experts), so that there is nothing to add up.
  GradNormReducer(RankContext& context, std::int64_t total_elems, bool reduce);

  /// `gradients`: the owned pieces, fp32 on the device, ready on the compute stream. Blocks the host
  /// until the result is known.
  GradNorm compute(const std::vector<ConstTensorView>& gradients);

 private:
  void reduce_and_read(double* host, TensorView device, const std::vector<ReduceOp>& ops);

  RankContext& context_;
  std::int64_t total_elems_;
  bool reduce_;
  DeviceMemory memory_;  ///< fp64: [0] largest magnitude, [1] non-finite count, [2..5) slices, [5] the guess
  double guess_ = 0;  ///< what memory_ holds of it: a magnitude with the last iteration's grids; 0: none yet
  std::unique_ptr<Event> inputs_ready_;
};

}  // namespace zero1
