#include "core/model/gpt.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <stdexcept>

#include "core/base/error.h"
#include "core/model/gpt_block.h"

namespace zero1 {
namespace {

constexpr int wte = 0;
constexpr int wpe = 1;
constexpr int first_block_param = 2;

std::vector<ParamSpec> gpt_param_specs(const GptConfig& config) {
  const std::int64_t C = config.hidden_size;
  std::vector<ParamSpec> specs;
  const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
    specs.push_back({.name = std::move(name), .shape = std::move(shape), .dtype = config.param_dtype});
  };
  const auto add_pair = [&](const std::string& prefix, std::vector<std::int64_t> weight_shape) {
    const std::int64_t out = weight_shape.front();
    add(prefix + ".weight", std::move(weight_shape));
    add(prefix + ".bias", {out});
  };
  add("wte.weight", {config.vocab_size, C});
  add("wpe.weight", {config.max_seq_len, C});
  for (int layer = 0; layer < config.num_layers; ++layer) {
    const std::string block = fmt::format("h.{}.", layer);
    add_pair(block + "ln_1", {C});
    add_pair(block + "attn.c_attn", {3 * C, C});
    add_pair(block + "attn.c_proj", {C, C});
    add_pair(block + "ln_2", {C});
    add_pair(block + "mlp.c_fc", {4 * C, C});
    add_pair(block + "mlp.c_proj", {C, 4 * C});
  }
  add_pair("ln_f", {C});
  return specs;
}

void check_config(const GptConfig& config) {
  check_model_size("vocab_size", config.vocab_size);
  check_model_size("max_seq_len", config.max_seq_len);
  check_model_size("num_layers", config.num_layers);
  check_model_size("hidden_size", config.hidden_size);
  check_model_size("num_heads", config.num_heads);
  if (config.hidden_size % config.num_heads != 0) {
    throw InputError(
        fmt::format("hidden_size {} is not divisible by num_heads {}", config.hidden_size, config.num_heads));
  }
  if (config.param_dtype == DType::fp64) {
    throw InputError("param_dtype is float64, expected float32, bfloat16 or float16");
  }
}

/// What one microbatch leaves for backward.
struct GptActivations {
  Batch batch;
  std::vector<BlockActivations> blocks;
  Activation x;  // [N, C], the last block's output
  NormActivations ln_f;
  Activation logits;  // [N, V]; after the loss: their gradient
};

class Gpt final : public Model {
 public:
  explicit Gpt(const GptConfig& config);

  const std::vector<ParamSpec>& param_specs() const override { return specs_; }
  const std::vector<Layer>& layers() const override { return layers_; }
  void bind(Device& device, Stream& compute, std::vector<ParamBinding> params) override;
  void forward(const Batch& batch, TensorView loss_sum, float loss_grad_scale, ModelHooks& hooks) override;
  void backward(ModelHooks& hooks) override;
  bool fills_main_grad(int param) const override;
  void evaluate(const Batch& batch, TensorView loss_sum, ModelHooks& hooks) override;
  void next_token_logits(const Batch& batch, TensorView logits, ModelHooks& hooks) override;
  std::vector<float> initial_values(int param, std::uint64_t seed) const override;
  double flops_per_token(std::int64_t seq_len) const override;

 private:
  // Layer indices: 0 is the embedding, 1 + n is block n.
  int ln_f_layer() const { return config_.num_layers + 1; }
  int head_layer() const { return config_.num_layers + 2; }
  int block_param(int block) const { return first_block_param + block * block_param_count; }
  int ln_f_weight() const { return block_param(config_.num_layers); }
  int ln_f_bias() const { return ln_f_weight() + 1; }

  GptShape shape_of(const Batch& batch) const {
    return {batch.sequences, batch.seq_len, config_.hidden_size, config_.num_heads, config_.param_dtype};
  }
  LinearShape head_shape(const Batch& batch) const {
    return {batch.n_tokens(), config_.hidden_size, config_.vocab_size};
  }
  void check_batch(const Batch& batch) const;

  /// Everything up to the head, whose forward has begun: the caller ends it. Without `keep`, activations go
  /// as soon as forward is done with them.
  GptActivations forward_to_head(const Batch& batch, bool keep, ModelHooks& hooks);
  /// The same and the logits.
  GptActivations forward_to_logits(const Batch& batch, bool keep, ModelHooks& hooks);

  GptConfig config_;
  std::vector<ParamSpec> specs_;
  std::vector<Layer> layers_;
  ModelContext context_;
  std::optional<GptActivations> saved_;  ///< between forward and backward
};

Gpt::Gpt(const GptConfig& config) : config_(config) {
  check_config(config);
  specs_ = gpt_param_specs(config);
  layers_.push_back({"embedding", {wte, wpe}});
  for (int block = 0; block < config.num_layers; ++block) {
    Layer layer{fmt::format("h.{}", block), {}};
    for (int i = 0; i < block_param_count; ++i) layer.params.push_back(block_param(block) + i);
    layers_.push_back(std::move(layer));
  }
  layers_.push_back({"ln_f", {ln_f_weight(), ln_f_bias()}});
  layers_.push_back({"head", {wte}});
}

void Gpt::bind(Device& device, Stream& compute, std::vector<ParamBinding> params) {
  saved_.reset();
  context_ = make_model_context(device, compute, std::move(params), specs_);
}

void Gpt::check_batch(const Batch& batch) const {
  if (context_.device == nullptr) throw std::logic_error("the model runs before it was bound to a device");
  if (batch.sequences < 1 || batch.seq_len < 1 || batch.seq_len > config_.max_seq_len) {
    throw InputError(fmt::format(
        "a batch of {} sequences of {} tokens; expected at least one sequence of 1 to {} (max_seq_len)",
        batch.sequences, batch.seq_len, config_.max_seq_len));
  }
}

GptActivations Gpt::forward_to_head(const Batch& batch, bool keep, ModelHooks& hooks) {
  check_batch(batch);
  saved_.reset();
  Ops& ops = context_.ops();
  Stream& stream = *context_.stream;
  const GptShape shape = shape_of(batch);
  GptActivations saved;
  saved.batch = batch;

  hooks.begin_forward(0);
  Activation x = context_.allocate(shape.dtype, shape.tokens() * shape.channels);
  ops.embedding_forward(stream, x, batch.tokens, context_.param(wte), context_.param(wpe), shape.tokens(),
                        shape.seq_len, shape.channels);
  hooks.end_forward(0);

  for (int block = 0; block < config_.num_layers; ++block) {
    hooks.begin_forward(1 + block);
    {
      BlockActivations activations;
      activations.x = std::move(x);
      x = forward_block(context_, shape, block_param(block), activations);
      if (keep) saved.blocks.push_back(std::move(activations));
    }
    hooks.end_forward(1 + block);
  }

  hooks.begin_forward(ln_f_layer());
  saved.ln_f = forward_norm(context_, shape, ln_f_weight(), ln_f_bias(), x);
  if (keep)
    saved.x = std::move(x);
  else
    x.free();
  hooks.end_forward(ln_f_layer());

  hooks.begin_forward(head_layer());
  return saved;
}

GptActivations Gpt::forward_to_logits(const Batch& batch, bool keep, ModelHooks& hooks) {
  GptActivations saved = forward_to_head(batch, keep, hooks);
  saved.logits = context_.allocate(config_.param_dtype, batch.n_tokens() * config_.vocab_size);
  linear_forward(context_, saved.logits, saved.ln_f.out, wte, head_shape(batch));
  return saved;
}

void Gpt::forward(const Batch& batch, TensorView loss_sum, float loss_grad_scale, ModelHooks& hooks) {
  GptActivations saved = forward_to_logits(batch, true, hooks);
  context_.ops().cross_entropy(*context_.stream, loss_sum, saved.logits, batch.targets, batch.n_tokens(),
                               config_.vocab_size, loss_grad_scale);
  hooks.end_forward(head_layer());
  saved_ = std::move(saved);
}

void Gpt::evaluate(const Batch& batch, TensorView loss_sum, ModelHooks& hooks) {
  const GptActivations last = forward_to_logits(batch, false, hooks);
  context_.ops().cross_entropy_loss(*context_.stream, loss_sum, last.logits, batch.targets, batch.n_tokens(),
                                    config_.vocab_size);
  hooks.end_forward(head_layer());
}

void Gpt::next_token_logits(const Batch& batch, TensorView logits, ModelHooks& hooks) {
  const GptActivations last = forward_to_head(batch, false, hooks);
  const std::int64_t C = config_.hidden_size;
  const std::int64_t V = config_.vocab_size;
  for (std::int64_t s = 0; s < batch.sequences; ++s) {
    const std::int64_t row = (s + 1) * batch.seq_len - 1;
    const ConstTensorView hidden = last.ln_f.out;
    linear_forward(context_, logits.slice({s * V, (s + 1) * V}), hidden.slice({row * C, (row + 1) * C}), wte,
                   {1, C, V});
  }
  hooks.end_forward(head_layer());
}

void Gpt::backward(ModelHooks& hooks) {
  if (!saved_) throw std::logic_error("backward without a forward before it");
  GptActivations saved = std::move(*saved_);
  saved_.reset();
  Ops& ops = context_.ops();
  Stream& stream = *context_.stream;
  const Batch& batch = saved.batch;
  const GptShape shape = shape_of(batch);

  hooks.begin_backward(head_layer());
  linear_backward_weight(context_, wte, saved.logits, saved.ln_f.out, head_shape(batch), hooks);
  hooks.grad_ready(wte);
  Activation d_ln_f = std::move(saved.ln_f.out);  // its last reader is queued: the gradient goes over it
  linear_backward_input(context_, d_ln_f, saved.logits, wte, head_shape(batch));
  saved.logits.free();
  hooks.end_backward(head_layer());

  hooks.begin_backward(ln_f_layer());
  Activation d_x = context_.allocate(shape.dtype, shape.tokens() * shape.channels);
  ops.layernorm_backward(stream, d_x, context_.main_grad(ln_f_weight()), context_.main_grad(ln_f_bias()),
                         d_ln_f, {}, saved.x, context_.param(ln_f_weight()), saved.ln_f.mean, saved.ln_f.rstd,
                         shape.tokens(), shape.channels);
  hooks.grad_ready(ln_f_bias());
  hooks.grad_ready(ln_f_weight());
  d_ln_f.free();
  saved.ln_f = {};
  saved.x.free();
  hooks.end_backward(ln_f_layer());

  for (int block = config_.num_layers - 1; block >= 0; --block) {
    hooks.begin_backward(1 + block);
    backward_block(context_, shape, block_param(block), saved.blocks.back(), d_x, hooks);
    saved.blocks.pop_back();
    hooks.end_backward(1 + block);
  }

  hooks.begin_backward(0);
  ops.embedding_backward(stream, context_.main_grad(wte), context_.main_grad(wpe), d_x, batch.tokens,
                         shape.tokens(), shape.seq_len, shape.channels);
  hooks.grad_ready(wpe);
  hooks.grad_ready(wte);
  hooks.end_backward(0);
}

/// Every weight of a linear layer; the tied one's first contribution is the head's.
bool Gpt::fills_main_grad(int param) const {
  return param != wpe && specs_.at(static_cast<std::size_t>(param)).shape.size() == 2;
}

std::vector<float> Gpt::initial_values(int param, std::uint64_t seed) const {
  const ParamSpec& spec = specs_.at(static_cast<std::size_t>(param));
  const std::int64_t numel = spec.numel();
  if (spec.shape.size() == 1) {
    const float value = spec.name.ends_with(".weight") ? 1.0F : 0.0F;  // a norm's weight, or a bias
    return std::vector<float>(static_cast<std::size_t>(numel), value);
  }
  // The residual stream sums two projections per block; scaled so, its variance does not grow with depth.
  const bool adds_to_residual = spec.name.ends_with("c_proj.weight");
  const double stddev = adds_to_residual ? 0.02 / std::sqrt(2.0 * config_.num_layers) : 0.02;
  return normal_values(seed, param, numel, stddev);
}

/// A product with an [out, in] weight takes 2 · out · in operations per token forward and twice that
/// backward. Attention scores and values take 2 · T · C each, counted without the causal half, as usual
/// (Megatron: `num_floating_point_operations`).
double Gpt::flops_per_token(std::int64_t seq_len) const {
  const auto C = static_cast<double>(config_.hidden_size);
  const double block_weights = 12 * C * C;  // 3C² + C² + 4C² + 4C²
  const double head_weights = C * static_cast<double>(config_.vocab_size);
  const double attention = 2 * C * static_cast<double>(seq_len);
  return 6 * (config_.num_layers * (block_weights + attention) + head_weights);
}

}  // namespace

std::unique_ptr<Model> make_gpt(const GptConfig& config) {
  return std::make_unique<Gpt>(config);
}

}  // namespace zero1
