// A small GPT whose run on GPUs overlaps communication with compute in several buckets.
#pragma once

#include "core/train/config.h"

namespace zero1::test {

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

}  // namespace zero1::test
