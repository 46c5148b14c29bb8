#include "core/train/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/model/gpt.h"
#include "core/model/mlp.h"

namespace zero1 {

namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw InputError(message);
}

void require_positive(std::int64_t value, const char* flag) {
  require(value > 0, fmt::format("{} must be at least 1, got {}", flag, value));
}

/// Far beyond what runs, and small enough that no product of sizes overflows.
void require_size(std::int64_t value, std::int64_t largest, const char* flag) {
  require_positive(value, flag);
  require(value <= largest, fmt::format("{} must be at most {}, got {}", flag, largest, value));
}

void check_optimizer(const TrainConfig& c) {
  const OptimizerConfig& o = c.optimizer;
  require(c.lr.lr >= 0, fmt::format("--lr must not be negative, got {}", c.lr.lr));
  require(0 <= c.lr.min_lr && c.lr.min_lr <= c.lr.lr,
          fmt::format("--min-lr must lie between 0 and --lr ({}), got {}", c.lr.lr, c.lr.min_lr));
  require(c.lr.warmup_iters >= 0,
          fmt::format("--lr-warmup-iters must not be negative, got {}", c.lr.warmup_iters));
  require(c.lr.warmup_iters <= c.lr.decay_iters || c.lr.style == LrDecayStyle::constant,
          fmt::format("--lr-warmup-iters ({}) must not exceed --lr-decay-iters ({})", c.lr.warmup_iters,
                      c.lr.decay_iters));
  require(0 <= o.adam_beta1 && o.adam_beta1 < 1,
          fmt::format("--adam-beta1 must lie in [0, 1), got {}", o.adam_beta1));
  require(0 <= o.adam_beta2 && o.adam_beta2 < 1,
          fmt::format("--adam-beta2 must lie in [0, 1), got {}", o.adam_beta2));
  require(o.adam_eps > 0, fmt::format("--adam-eps must be positive, got {}", o.adam_eps));
  require(o.weight_decay >= 0, fmt::format("--weight-decay must not be negative, got {}", o.weight_decay));
  require(o.clip_grad >= 0,
          fmt::format("--clip-grad must not be negative (0: no clipping), got {}", o.clip_grad));
}

void check_loss_scale(const LossScalerConfig& s) {
  const auto positive = [](double value) { return value > 0 && std::isfinite(value); };
  require(!s.constant || positive(*s.constant), "--loss-scale must be positive");
  require(positive(s.initial_scale), "--initial-loss-scale must be positive");
  require(positive(s.min_scale), "--min-loss-scale must be positive");
  require_positive(s.growth_interval, "--loss-scale-window");
  require_positive(s.hysteresis, "--hysteresis");
}

void check_data_parallel(const TrainConfig& c) {
  const DataParallelConfig& d = c.data_parallel;
  if (d.bucket_size_elems) require_positive(*d.bucket_size_elems, "--ddp-bucket-size");
  if (d.num_buckets) require_positive(*d.num_buckets, "--ddp-num-buckets");
  require(!(d.bucket_size_elems && d.num_buckets), "give --ddp-bucket-size or --ddp-num-buckets, not both");
  require(d.use_distributed_optimizer || !d.overlap_param_gather,
          "--overlap-param-gather needs the distributed optimizer: without it no parameters are gathered");
  require(!d.overlap_param_gather || d.overlap_grad_reduce,
          "--overlap-param-gather needs --overlap-grad-reduce, as in Megatron");
  require(!d.check_for_large_grads || *d.check_for_large_grads > 0,
          "--check-for-large-grads must be positive");
}

void resolve_machine(TrainConfig& c) {
  require(c.device == "cpu" || c.device == "cuda",
          fmt::format("--device must be cpu or cuda, got '{}'", c.device));
  const bool cuda = c.device == "cuda";
  if (c.comm.empty()) c.comm = cuda ? "nccl" : "local";
  require(c.comm == "local" || c.comm == "nccl",
          fmt::format("--comm must be local or nccl, got '{}'", c.comm));
  require(cuda || c.comm == "local", "--comm nccl needs --device cuda: NCCL moves data between GPUs only");
  require(cuda || !c.tf32, "--tf32 needs --device cuda");
  require(c.threads_per_rank >= 0, "--threads-per-rank must not be negative (0: automatic)");
  if (c.threads_per_rank == 0) {
    c.threads_per_rank = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / c.dp);
  }
  require(c.link.gbit_per_s >= 0, "--link-gbps must not be negative (0: no limit)");
  require(c.link.latency_us >= 0, "--link-latency-us must not be negative");
  require(!cuda || !c.link.enabled(),
          "--link-gbps and --link-latency-us are not supported with --device cuda: on GPUs the real link "
          "counts; use --device cpu to model one");
}

}  // namespace

TrainConfig resolve(TrainConfig c) {
  require(c.model == "gpt" || c.model == "mlp", fmt::format("--model must be gpt or mlp, got '{}'", c.model));
  require(c.dp >= 1 && c.dp <= 1024,
          fmt::format("--dp must lie between 1 and 1024 in-process ranks, got {}", c.dp));
  require_positive(c.num_layers, "--num-layers");
  require_positive(c.hidden_size, "--hidden-size");
  require_positive(c.num_attention_heads, "--num-attention-heads");
  require(c.model != "gpt" || c.hidden_size % c.num_attention_heads == 0,
          fmt::format("--num-attention-heads ({}) must divide --hidden-size ({})", c.num_attention_heads,
                      c.hidden_size));
  require_size(c.seq_length, 1 << 24, "--seq-length");
  require_size(c.micro_batch_size, 1 << 20, "--micro-batch-size");
  require_size(c.train_iters, std::numeric_limits<std::int32_t>::max(), "--train-iters");
  if (c.max_position_embeddings == 0) c.max_position_embeddings = c.seq_length;
  require(c.max_position_embeddings >= c.seq_length,
          fmt::format("--max-position-embeddings ({}) must be at least --seq-length ({})",
                      c.max_position_embeddings, c.seq_length));
  if (c.global_batch_size == 0) c.global_batch_size = c.micro_batch_size * c.dp;
  require_size(c.global_batch_size, 1 << 30, "--global-batch-size");
  require(
      c.global_batch_size % (c.micro_batch_size * c.dp) == 0,
      fmt::format("--global-batch-size ({}) must be a multiple of --micro-batch-size ({}) times --dp ({})",
                  c.global_batch_size, c.micro_batch_size, c.dp));
  if (c.lr.decay_iters == 0) c.lr.decay_iters = c.train_iters;
  check_optimizer(c);
  check_data_parallel(c);
  require(c.eval_interval >= 0, "--eval-interval must not be negative (0: never)");
  require(c.eval_interval == 0 || !c.valid_data.empty(), "--eval-interval needs --valid-data FILE");
  require(c.eval_interval > 0 || c.valid_data.empty(), "--valid-data needs --eval-interval N");
  if (c.eval_interval > 0) require_size(c.eval_iters, 1 << 20, "--eval-iters");
  resolve_machine(c);
  require(!c.loss_scale.constant || c.param_dtype == DType::fp16,
          "--loss-scale needs --fp16: other types are trained without one");
  check_loss_scale(c.loss_scale);
  if (c.param_dtype == DType::fp16) {
    c.data_parallel.check_for_nan_in_grad = false;  // the loss scaler finds its scale by overflowing
  }
  return c;
}

std::unique_ptr<Model> make_model(const TrainConfig& c) {
  if (c.model == "mlp") {
    MlpConfig mlp;
    mlp.hidden_size = c.hidden_size;
    mlp.num_layers = c.num_layers;
    mlp.param_dtype = c.param_dtype;
    return make_mlp(mlp);
  }
  GptConfig gpt;
  gpt.max_seq_len = c.max_position_embeddings;
  gpt.num_layers = c.num_layers;
  gpt.hidden_size = c.hidden_size;
  gpt.num_heads = c.num_attention_heads;
  gpt.param_dtype = c.param_dtype;
  return make_gpt(gpt);
}

std::string to_json(const TrainConfig& c) {
  const DataParallelConfig& d = c.data_parallel;
  const nlohmann::ordered_json json{
      {"model", c.model},
      {"num_layers", c.num_layers},
      {"hidden_size", c.hidden_size},
      {"num_attention_heads", c.num_attention_heads},
      {"seq_length", c.seq_length},
      {"params_dtype", name(c.param_dtype)},
      {"dp", c.dp},
      {"micro_batch_size", c.micro_batch_size},
      {"global_batch_size", c.global_batch_size},
      {"train_iters", c.train_iters},
      {"lr", c.lr.lr},
      {"lr_decay_style", name(c.lr.style)},
      {"seed", c.seed},
      {"use_distributed_optimizer", d.use_distributed_optimizer},
      {"overlap_grad_reduce", d.overlap_grad_reduce},
      {"overlap_param_gather", d.overlap_param_gather},
      {"grad_reduce_in_fp32", d.grad_reduce_in_fp32},
      {"average_in_collective", d.average_in_collective},
      {"device", c.device},
      {"comm", c.comm},
      {"tf32", c.tf32},
      {"link_gbps", c.link.gbit_per_s},
      {"link_latency_us", c.link.latency_us},
      {"threads_per_rank", c.threads_per_rank},
  };
  return json.dump();
}

}  // namespace zero1
