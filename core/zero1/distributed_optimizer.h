// AdamW on this rank's shards. Megatron: `DistributedOptimizer` in
// megatron/core/optimizer/distrib_optimizer.py.
#pragma once

#include <memory>
#include <vector>

#include "core/layout/range_map.h"
#include "core/zero1/data_parallel.h"
#include "core/zero1/grad_norm.h"
#include "core/zero1/param_groups.h"

namespace zero1 {

/// The fp32 optimizer state of the part of one bucket that this rank owns, in local coordinates: the
/// whole shard, or the whole bucket when the distributed optimizer is off. Padding stays zero.
struct BucketShard {
  BucketRef bucket;
  Range in_bucket;        ///< what this rank owns, in bucket coordinates
  TensorView main_param;  ///< fp32; the parameter buffer itself for fp32 parameters
  TensorView main_grad;   ///< fp32; the gradient buffer itself for fp32 gradients
  TensorView exp_avg;
  TensorView exp_avg_sq;
  TensorView model_param;          ///< this shard in the parameter buffer, in the parameter's dtype
  TensorView model_grad;           ///< this shard in the gradient buffer, in the gradient's dtype
  std::vector<ParamShard> params;  ///< the parameters in it; gbuf_local indexes the views above
};

struct StepResult {
  double grad_norm = 0;  ///< before clipping; 0 when the step was skipped
  double clip_coefficient = 1;
  std::int64_t non_finite = 0;  ///< over all ranks
  bool skipped = false;         ///< nothing was updated, on any rank
};

/// Main parameters are fp32 copies of the owned elements; fp32 parameters are their own main
/// parameters and are updated in place in the buffer. One call of `step` per iteration, after
/// DataParallel::finish_grad_sync, on the rank's thread; all ranks make it. DataParallel::start_param_sync
/// follows it.
class DistributedOptimizer {
 public:
  /// Allocates the states and copies the parameters as they are now into the main parameters.
  DistributedOptimizer(DataParallel& data_parallel, const OptimizerConfig& config);

  /// Gradients to main gradients, norm, clipping, AdamW, parameters back: this rank's shards are current
  /// then, the others' stale.
  /// `grad_multiplier` undoes a loss scale (its inverse) and is part of the norm. A non-finite gradient
  /// on any rank makes every rank skip the step.
  StepResult step(double lr, double grad_multiplier = 1);

  /// The main parameters follow the buffer's values again: call after parameters were set from outside.
  void reload_model_params();

  /// The inverse, after the main parameters were set from outside (a checkpoint): rounds them into the
  /// buffer and gathers every rank's. All ranks call it.
  void publish_main_params();

  /// So many steps have been made before this run: AdamW's bias correction goes on from there.
  void set_step_count(std::int64_t step_count) { step_count_ = step_count; }

  const OptimizerConfig& config() const { return config_; }
  const std::vector<BucketShard>& shards() const { return shards_; }
  std::int64_t step_count() const { return step_count_; }
  /// fp32[1] on the device: what AdamW multiplies gradients by, the clip coefficient times grad_multiplier.
  ConstTensorView grad_scale() const { return grad_scale_.view(DType::fp32); }
  const std::vector<ParamMultipliers>& multipliers() const { return multipliers_; }

 private:
  void build_shards();
  bool find_owned_grads();
  void copy_model_grads_to_main_grads();
  void adamw(BucketShard& shard, double lr);
  trace::Tracer::Span phase(trace::Kind kind, int bucket = -1);

  DataParallel& data_parallel_;
  RankContext& context_;
  OptimizerConfig config_;
  std::vector<ParamMultipliers> multipliers_;  ///< by parameter index
  std::vector<DeviceMemory> memory_;           ///< what the shards' own views point into
  std::vector<BucketShard> shards_;            ///< by global bucket number
  std::vector<ConstTensorView> owned_grads_;   ///< over all ranks every element once, padding excluded
  std::unique_ptr<GradNormReducer> norm_;
  DeviceMemory grad_scale_;  ///< fp32[1]: clip coefficient times grad_multiplier
  std::int64_t step_count_ = 0;
};

}  // namespace zero1
