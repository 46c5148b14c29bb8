// What a run of the pipeline can be told. Where Megatron-LM has the option, name and default are the same,
// but that here the distributed optimizer is on, gradients are in fp32 and are checked for NaN, which there
// its training script turns on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero1 {

/// Megatron: `DistributedDataParallelConfig`.
struct DataParallelConfig {
  bool use_distributed_optimizer =
      true;                            ///< off: plain data parallelism, all-reduce and full optimizer states
  bool overlap_grad_reduce = false;    ///< start a bucket's reduction when its gradients are complete
  bool overlap_param_gather = false;   ///< gather a bucket's parameters while earlier layers compute
  bool grad_reduce_in_fp32 = true;     ///< off: gradients live in the parameter's dtype
  bool average_in_collective = false;  ///< off: pre-scale by 1/dp and sum
  bool pad_buckets_for_high_nccl_busbw = false;
  bool force_all_reduce = false;                  ///< keep whole reduced gradients on every rank (debugging)
  bool check_for_nan_in_grad = true;              ///< a NaN or infinity before a reduction is an error
  std::optional<double> check_for_large_grads;    ///< a gradient element beyond this is an error
  std::optional<std::int64_t> bucket_size_elems;  ///< unset: derived by layout_options()
  std::optional<int> num_buckets;                 ///< derives a size; only without bucket_size_elems
};

/// One rule of a run's parameter groups: the first whose pattern matches a name decides.
struct ParamGroupRule {
  std::string pattern;  ///< shell wildcards, as in "h.*.attn.*"
  double lr_mult = 1;
  double weight_decay_mult = 1;
};

/// Megatron: `OptimizerConfig`. The learning rate comes with every step.
struct OptimizerConfig {
  double weight_decay = 0.01;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;
  double clip_grad = 1.0;  ///< maximum global norm; 0: no clipping
  /// Tried in order; a parameter that none matches decays when it has two or more dimensions.
  std::vector<ParamGroupRule> param_groups;
};

}  // namespace zero1
