// Small GPTs whose runs on GPUs overlap communication with compute.
#pragma once

#include "core/train/config.h"

namespace zero1::test {

/// Several buckets.
inline TrainConfig overlapped_gpt(const char* comm, int ranks, int steps) {
  TrainConfig c;
  c.num_layers = 2;
  c.hidden_size = 24;
  c.num_attention_heads = 3;
  c.seq_length = 12;
  c.dp = ranks;
  c.global_batch_size = 2 * ranks;
  c.train_iters = steps;
  c.lr.lr = 1e-2;
  c.device = "cuda";
  c.comm = comm;
  c.data_parallel.overlap_grad_reduce = true;
  c.data_parallel.overlap_param_gather = true;
  c.data_parallel.bucket_size_elems = 4000;
  return resolve(c);
}

/// Two ranks over NCCL, where the pipeline's waits are the only ones: eight on each GPU in a step, and two
/// more in the first, which knows no gradient's magnitude yet and so reduces twice for its norm. (A later
/// step does when its largest gradient is far from the last's, which no step here is.) One bucket, or another
/// bucket's wait would imply this one's; no check for NaN, or the host's wait for its result would.
inline TrainConfig one_bucket_gpt(int steps) {
  TrainConfig c = overlapped_gpt("nccl", 2, steps);
  c.num_layers = 1;
  c.data_parallel.bucket_size_elems.reset();
  c.data_parallel.check_for_nan_in_grad = false;
  return c;
}
inline constexpr int one_bucket_gpt_waits = 8;
inline constexpr int one_bucket_gpt_first_waits = one_bucket_gpt_waits + 2;

}  // namespace zero1::test
