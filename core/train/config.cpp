#include "core/train/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

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

/// What fp32 can compute with; no NaN, no infinity.
void require_number(double value, double least, const char* flag, const char* note = "") {
  constexpr double most = std::numeric_limits<float>::max();
  require(least <= value && value <= most,
          fmt::format("{} must lie between {:g} and {:g}{}, got {:g}", flag, least, most, note, value));
}

void check_schedule(const LearningRateConfig& lr) {
  require_number(lr.lr, 0, "--lr");
  require(0 <= lr.min_lr && lr.min_lr <= lr.lr,
          fmt::format("--min-lr must lie between 0 and --lr ({}), got {}", lr.lr, lr.min_lr));
  require(lr.warmup_iters >= 0,
          fmt::format("--lr-warmup-iters must not be negative, got {}", lr.warmup_iters));
  require(lr.warmup_iters <= lr.decay_iters,
          fmt::format("--lr-warmup-iters ({}) must not exceed --lr-decay-iters ({}; --train-iters unless "
                      "given)",
                      lr.warmup_iters, lr.decay_iters));
  if (lr.style != LrDecayStyle::wsd) {
    require(lr.wsd_decay_iters == 0, "--lr-wsd-decay-iters needs --lr-decay-style WSD");
    return;
  }
  require(
      1 <= lr.wsd_decay_iters && lr.wsd_decay_iters <= lr.decay_iters - lr.warmup_iters,
      fmt::format("--lr-decay-style WSD needs --lr-wsd-decay-iters: the last of the iterations, in which the "
                  "rate decays, from 1 to the {} between --lr-warmup-iters ({}) and --lr-decay-iters ({}); "
                  "got {}",
                  lr.decay_iters - lr.warmup_iters, lr.warmup_iters, lr.decay_iters, lr.wsd_decay_iters));
}

void check_optimizer(const TrainConfig& c) {
  const OptimizerConfig& o = c.optimizer;
  require(0 <= o.adam_beta1 && o.adam_beta1 < 1,
          fmt::format("--adam-beta1 must lie in [0, 1), got {}", o.adam_beta1));
  require(0 <= o.adam_beta2 && o.adam_beta2 < 1,
          fmt::format("--adam-beta2 must lie in [0, 1), got {}", o.adam_beta2));
  require_number(o.adam_eps, std::numeric_limits<float>::min(), "--adam-eps");
  require_number(o.weight_decay, 0, "--weight-decay");
  require_number(o.clip_grad, 0, "--clip-grad", " (0: no clipping)");
}

void check_loss_scale(const LossScalerConfig& s) {
  constexpr double least = std::numeric_limits<float>::min();
  if (s.constant) require_number(*s.constant, least, "--loss-scale");
  require_number(s.initial_scale, least, "--initial-loss-scale");
  require_number(s.min_scale, least, "--min-loss-scale");
  require(s.min_scale <= s.initial_scale,
          fmt::format("--min-loss-scale ({:g}) must not exceed --initial-loss-scale ({:g})", s.min_scale,
                      s.initial_scale));
  require_positive(s.growth_interval, "--loss-scale-window");
  require_positive(s.hysteresis, "--hysteresis");
}

void resolve_vocabulary(TrainConfig& c) {
  constexpr std::int64_t most = 1 << 24;
  for (const auto& [flag, path] : {std::pair{"--data", &c.data}, std::pair{"--valid-data", &c.valid_data}}) {
    require(
        c.vocab_size != 0 || path->empty() || !holds_token_ids(*path, c.token_dtype),
        fmt::format("{} {}: is read as a file of token ids, which needs --vocab-size N (50257 for GPT-2's "
                    "tokens); to train on its bytes give --token-dtype uint8",
                    flag, *path));
  }
  require(c.data.empty() || c.valid_data.empty() ||
              holds_token_ids(c.data, c.token_dtype) == holds_token_ids(c.valid_data, c.token_dtype),
          fmt::format(
              "--data {} and --valid-data {}: one is read as bytes and one as token ids; say how both are "
              "stored with --token-dtype",
              c.data, c.valid_data));
  require(c.token_dtype == TokenDType::automatic || !c.data.empty(), "--token-dtype needs --data FILE");
  if (c.vocab_size == 0) c.vocab_size = 256;
  require_size(c.vocab_size, most, "--vocab-size");
  constexpr std::int64_t ascii = 128;
  require(
      !c.data.empty() || c.vocab_size >= ascii,
      fmt::format("--vocab-size must be at least {} for the generated corpus, got {}", ascii, c.vocab_size));
  require_size(c.make_vocab_size_divisible_by, most, "--make-vocab-size-divisible-by");
  require(c.padded_vocab_size() <= most,
          fmt::format("--make-vocab-size-divisible-by {} pads --vocab-size {} to {}, at most {} is possible",
                      c.make_vocab_size_divisible_by, c.vocab_size, c.padded_vocab_size(), most));
}

void check_data_parallel(const TrainConfig& c) {
  const DataParallelConfig& d = c.data_parallel;
  if (d.bucket_size_elems) require_positive(*d.bucket_size_elems, "--ddp-bucket-size");
  if (d.num_buckets) require_positive(*d.num_buckets, "--ddp-num-buckets");
  require(!(d.bucket_size_elems && d.num_buckets), "give --ddp-bucket-size or --ddp-num-buckets, not both");
  require(d.use_distributed_optimizer || !d.overlap_param_gather,
          "--overlap-param-gather needs --use-distributed-optimizer: without it no parameters are gathered");
  require(!d.overlap_param_gather || d.overlap_grad_reduce,
          "--overlap-param-gather needs --overlap-grad-reduce, as in Megatron");
  if (d.check_for_large_grads) {
    require_number(*d.check_for_large_grads, std::numeric_limits<float>::min(), "--check-for-large-grads");
  }
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
  // OpenMP ends the program where the system gives it no thread.
  constexpr int most_threads = 16384;
  require(0 <= c.threads_per_rank && c.threads_per_rank <= most_threads / c.dp,
          fmt::format("--threads-per-rank must lie between 0 (automatic) and {} at --dp {}, got {}",
                      most_threads / c.dp, c.dp, c.threads_per_rank));
  if (c.threads_per_rank == 0) {
    c.threads_per_rank = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / c.dp);
  }
  // Within these, no time overflows 64 bits of nanoseconds.
  require(c.link.gbit_per_s == 0 || (1e-6 <= c.link.gbit_per_s && c.link.gbit_per_s <= 1e9),
          fmt::format("--link-gbps must be 0 (no limit) or lie between 1e-06 and 1e+09, got {:g}",
                      c.link.gbit_per_s));
  require(0 <= c.link.latency_us && c.link.latency_us <= 1e8,
          fmt::format("--link-latency-us must lie between 0 and 1e+08, got {:g}", c.link.latency_us));
  require(!cuda || !c.link.enabled(),
          "--link-gbps and --link-latency-us are not supported with --device cuda: on GPUs the real link "
          "counts; use --device cpu to model one");
}

}  // namespace

TrainConfig resolve(TrainConfig c) {
  const bool own_model = static_cast<bool>(c.model_factory);
  require(own_model || c.model == "gpt" || c.model == "mlp",
          fmt::format("--model must be gpt or mlp, got '{}'", c.model));
  require(c.dp >= 1 && c.dp <= 1024,
          fmt::format("--dp must lie between 1 and 1024 in-process ranks, got {}", c.dp));
  constexpr int most = 1 << 24;  // of whatever a model has
  require_size(c.num_layers, most, "--num-layers");
  require_size(c.hidden_size, most, "--hidden-size");
  require_positive(c.num_attention_heads, "--num-attention-heads");
  require(own_model || c.model != "gpt" || c.hidden_size % c.num_attention_heads == 0,
          fmt::format("--num-attention-heads ({}) must divide --hidden-size ({})", c.num_attention_heads,
                      c.hidden_size));
  resolve_vocabulary(c);
  require_size(c.seq_length, most, "--seq-length");
  require_size(c.micro_batch_size, 1 << 20, "--micro-batch-size");
  require_size(c.train_iters, std::numeric_limits<std::int32_t>::max(), "--train-iters");
  if (c.max_position_embeddings == 0) c.max_position_embeddings = c.seq_length;
  require(c.max_position_embeddings >= c.seq_length,
          fmt::format("--max-position-embeddings ({}) must be at least --seq-length ({})",
                      c.max_position_embeddings, c.seq_length));
  require_size(c.max_position_embeddings, most, "--max-position-embeddings");
  if (c.global_batch_size == 0) c.global_batch_size = c.micro_batch_size * c.dp;
  require_size(c.global_batch_size, 1 << 30, "--global-batch-size");
  require(
      c.global_batch_size % (c.micro_batch_size * c.dp) == 0,
      fmt::format("--global-batch-size ({}) must be a multiple of --micro-batch-size ({}) times --dp ({})",
                  c.global_batch_size, c.micro_batch_size, c.dp));
  require(c.lr.decay_iters >= 0,
          fmt::format("--lr-decay-iters must not be negative (0: --train-iters), got {}", c.lr.decay_iters));
  if (c.rampup_batch_size) check_rampup(*c.rampup_batch_size, c.global_batch_size, c.micro_batch_size * c.dp);
  if (c.lr.decay_iters == 0) {  // all that the run trains, in full batches
    const std::int64_t sequences = consumed_after(c.rampup_batch_size, c.global_batch_size, c.train_iters);
    c.lr.decay_iters = std::max<std::int64_t>(1, sequences / c.global_batch_size);
  }
  check_schedule(c.lr);
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
  if (c.param_dtype == DType::fp16 && !c.loss_scale.constant) {
    // The dynamic scale is found by overflowing: a gradient that is not finite is no fault. Megatron: the
    // same.
    c.data_parallel.check_for_nan_in_grad = false;
  }
  return c;
}

std::unique_ptr<Model> make_model(const TrainConfig& c) {
  if (c.model_factory) return c.model_factory(c);
  if (c.model == "mlp") {
    MlpConfig mlp;
    mlp.vocab_size = c.padded_vocab_size();
    mlp.hidden_size = c.hidden_size;
    mlp.num_layers = c.num_layers;
    mlp.param_dtype = c.param_dtype;
    return make_mlp(mlp);
  }
  GptConfig gpt;
  gpt.vocab_size = c.padded_vocab_size();
  gpt.max_seq_len = c.max_position_embeddings;
  gpt.num_layers = c.num_layers;
  gpt.hidden_size = c.hidden_size;
  gpt.num_heads = c.num_attention_heads;
  gpt.param_dtype = c.param_dtype;
  return make_gpt(gpt);
}

}  // namespace zero1
