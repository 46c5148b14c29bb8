// A Model in one file, with a comment on every step: copy it to bring your own. A model needs
//   1. a list of parameters, and of layers that say which parameters they read;
//   2. forward, which queues work on the compute stream and keeps what backward needs;
//   3. backward, which adds into every parameter's main_grad and says when each is complete.
// The pipeline does the rest: memory, buckets, reductions, the optimizer, and gathering parameters.
#include "core/model/mlp.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <stdexcept>

#include "core/base/error.h"
#include "core/model/model_context.h"

namespace zero1 {
namespace {

/// What forward leaves for backward.
struct MlpActivations {
  Batch batch;
  std::vector<Activation> h;  // h[l] [N, H]: the output of layer l, the input of layer l + 1
  Activation logits;          // [N, V]; after the loss: their gradient
};

class Mlp final : public Model {
 public:
  explicit Mlp(const MlpConfig& config) : config_(config) {
    // Refuse what cannot work, and name the field: the user sees this message.
    check_model_size("vocab_size", config.vocab_size);
    check_model_size("hidden_size", config.hidden_size);
    check_model_size("num_layers", config.num_layers);
    if (config.param_dtype == DType::fp64)
      throw InputError("param_dtype is float64, expected float32, bfloat16 or float16");

    // Parameters in model order, a weight and a bias per layer: layer l has parameters 2l and 2l + 1.
    const std::int64_t V = config.vocab_size;
    const std::int64_t H = config.hidden_size;
    add_layer("embed", {V, H}, H);
    for (int l = 0; l < config.num_layers; ++l) add_layer(fmt::format("hidden.{}", l), {H, H}, H);
    add_layer("head", {V, H}, V);
  }

  // The pipeline lays out its buffers by these, before any device is known.
  const std::vector<ParamSpec>& param_specs() const override { return specs_; }

  // The pipeline waits for the parameters of a layer when its forward begins.
  const std::vector<Layer>& layers() const override { return layers_; }

  // The pipeline hands over views into its buffers. A model owns no parameter and no gradient.
  void bind(Device& device, Stream& compute, std::vector<ParamBinding> params) override {
    saved_.reset();
    context_ = make_model_context(device, compute, std::move(params), specs_);
  }

  void forward(const Batch& batch, TensorView loss_sum, float loss_grad_scale, ModelHooks& hooks) override {
    MlpActivations saved = forward_to_logits(batch, hooks);
    // The loss is added to loss_sum, and the logits become their own gradient, scaled for backward.
    context_.ops().cross_entropy(*context_.stream, loss_sum, saved.logits, batch.targets, batch.n_tokens(),
                                 config_.vocab_size, loss_grad_scale);
    hooks.end_forward(head());
    saved_ = std::move(saved);
  }

  void evaluate(const Batch& batch, TensorView loss_sum, ModelHooks& hooks) override {
    // The same forward; what it produced goes at the end of this function.
    const MlpActivations last = forward_to_logits(batch, hooks);
    context_.ops().cross_entropy_loss(*context_.stream, loss_sum, last.logits, batch.targets,
                                      batch.n_tokens(), config_.vocab_size);
    hooks.end_forward(head());
  }

  void next_token_logits(const Batch& batch, TensorView logits, ModelHooks& hooks) override {
    const MlpActivations last = forward_to_head(batch, hooks);
    const ConstTensorView h = last.h.back();
    const std::int64_t H = config_.hidden_size;
    const std::int64_t V = config_.vocab_size;
    for (std::int64_t s = 0; s < batch.sequences; ++s) {
      // Only what follows the last token of a sequence is asked for.
      const std::int64_t row = (s + 1) * batch.seq_len - 1;
      linear_forward(context_, logits.slice({s * V, (s + 1) * V}), h.slice({row * H, (row + 1) * H}),
                     weight(head()), head_shape(1));
    }
    context_.ops().add_bias(*context_.stream, logits, context_.param(bias(head())), batch.sequences, V);
    hooks.end_forward(head());
  }

  void backward(ModelHooks& hooks) override {
    if (!saved_) throw std::logic_error("backward without a forward before it");
    MlpActivations saved = std::move(*saved_);
    saved_.reset();
    Ops& ops = context_.ops();
    Stream& stream = *context_.stream;
    const Batch& batch = saved.batch;
    const std::int64_t N = batch.n_tokens();
    const std::int64_t H = config_.hidden_size;

    // Head: the gradients of its own parameters first, so that their reduction can start early.
    hooks.begin_backward(head());
    backward_params(head(), saved.logits, saved.h.back(), head_shape(N), hooks);
    // d_h is the gradient of the head's input.
    Activation d_h = context_.allocate(config_.param_dtype, N * H);
    linear_backward_input(context_, d_h, saved.logits, weight(head()), head_shape(N));
    // Memory goes back as soon as its last reader is queued.
    saved.logits.free();
    hooks.end_backward(head());

    // Hidden layers, last to first.
    for (int layer = head() - 1; layer > 0; --layer) {
      hooks.begin_backward(layer);
      // Through the ReLU: the gradient passes where the output was positive. saved.h ends with it.
      Activation d_pre = context_.allocate(config_.param_dtype, N * H);
      ops.relu_backward(stream, d_pre, d_h, saved.h.back());
      saved.h.pop_back();
      // saved.h now ends with the layer's input.
      backward_params(layer, d_pre, saved.h.back(), {N, H, H}, hooks);
      linear_backward_input(context_, d_h, d_pre, weight(layer), {N, H, H});
      hooks.end_backward(layer);
    }

    // Embedding: row tokens[n] of the weight receives row n of d_h, the bias every row (see forward).
    hooks.begin_backward(embed);
    ops.embedding_backward(stream, context_.main_grad(weight(embed)), context_.main_grad(bias(embed)), d_h,
                           batch.tokens, N, 1, H);
    hooks.grad_ready(bias(embed));
    hooks.grad_ready(weight(embed));
    hooks.end_backward(embed);
  }

  // Optional. linear_backward_weight writes all of a weight's main_grad when it comes first in an iteration,
  // so the pipeline need not zero it; the embedding's rows and the biases are added to what is there, which
  // must be 0.
  bool fills_main_grad(int param) const override { return param % 2 == 0 && param != weight(embed); }

  std::vector<float> initial_values(int param, std::uint64_t seed) const override {
    const ParamSpec& spec = specs_.at(static_cast<std::size_t>(param));
    // Biases start at 0.
    if (param % 2 == 1) return std::vector<float>(static_cast<std::size_t>(spec.numel()), 0.0F);
    // A one-hot input picks one row, which should have variance 1; behind a ReLU, half of the H inputs
    // are 0, and a variance of 2/H keeps the scale from layer to layer (He et al. 2015).
    const double stddev =
        param == weight(embed) ? 1.0 : std::sqrt(2.0 / static_cast<double>(config_.hidden_size));
    return normal_values(seed, param, spec.numel(), stddev);
  }

  // Two operations per weight forward, twice that backward; looking up a row takes none.
  double flops_per_token(std::int64_t /*seq_len*/) const override {
    const auto H = static_cast<double>(config_.hidden_size);
    return 6 * (config_.num_layers * H * H + static_cast<double>(config_.vocab_size) * H);
  }

 private:
  static constexpr int embed = 0;
  int head() const { return config_.num_layers + 1; }
  static int weight(int layer) { return 2 * layer; }
  static int bias(int layer) { return 2 * layer + 1; }
  LinearShape head_shape(std::int64_t rows) const { return {rows, config_.hidden_size, config_.vocab_size}; }

  void add_layer(const std::string& name, std::vector<std::int64_t> weight_shape, std::int64_t bias_size) {
    const int layer = static_cast<int>(layers_.size());
    layers_.push_back({name, {weight(layer), bias(layer)}});
    specs_.push_back(
        {.name = name + ".weight", .shape = std::move(weight_shape), .dtype = config_.param_dtype});
    specs_.push_back({.name = name + ".bias", .shape = {bias_size}, .dtype = config_.param_dtype});
  }

  /// Up to the head, whose forward has begun: the caller ends it.
  MlpActivations forward_to_head(const Batch& batch, ModelHooks& hooks) {
    if (context_.device == nullptr) throw std::logic_error("the model runs before it was bound to a device");
    if (batch.n_tokens() < 1)
      throw InputError("a batch without tokens; expected at least one sequence of one token");
    saved_.reset();
    Ops& ops = context_.ops();
    Stream& stream = *context_.stream;
    const DType dtype = config_.param_dtype;
    const std::int64_t N = batch.n_tokens();
    const std::int64_t H = config_.hidden_size;
    MlpActivations saved;
    saved.batch = batch;

    // Before a layer reads its parameters it says so: the pipeline may still be gathering them.
    hooks.begin_forward(embed);
    // A one-hot row times a matrix is a look-up: row tokens[n] of the weight. The operation also adds
    // row n % seq_len of a second table, for positions; with a table of one row, that is a bias.
    saved.h.push_back(context_.allocate(dtype, N * H));
    ops.embedding_forward(stream, saved.h.back(), batch.tokens, context_.param(weight(embed)),
                          context_.param(bias(embed)), N, 1, H);
    hooks.end_forward(embed);

    for (int layer = 1; layer < head(); ++layer) {
      hooks.begin_forward(layer);
      // h[layer] = relu(h[layer - 1] · Wᵀ + b)
      Activation h = context_.allocate(dtype, N * H);
      linear_forward(context_, h, saved.h.back(), weight(layer), {N, H, H});
      ops.bias_relu_forward(stream, h, context_.param(bias(layer)), N, H);
      saved.h.push_back(std::move(h));
      hooks.end_forward(layer);
    }

    hooks.begin_forward(head());
    return saved;
  }

  /// The same and the logits: the caller adds the loss.
  MlpActivations forward_to_logits(const Batch& batch, ModelHooks& hooks) {
    MlpActivations saved = forward_to_head(batch, hooks);
    const std::int64_t N = batch.n_tokens();
    // logits = h · Wᵀ + b
    saved.logits = context_.allocate(config_.param_dtype, N * config_.vocab_size);
    linear_forward(context_, saved.logits, saved.h.back(), weight(head()), head_shape(N));
    context_.ops().add_bias(*context_.stream, saved.logits, context_.param(bias(head())), N,
                            config_.vocab_size);
    return saved;
  }

  /// Adds to the main_grads of a layer's bias and weight, last parameter first, and reports each.
  void backward_params(int layer, ConstTensorView d_out, ConstTensorView input, const LinearShape& shape,
                       ModelHooks& hooks) {
    context_.ops().bias_backward(*context_.stream, context_.main_grad(bias(layer)), d_out, shape.rows,
                                 shape.out);
    hooks.grad_ready(bias(layer));
    linear_backward_weight(context_, weight(layer), d_out, input, shape, hooks);
    hooks.grad_ready(weight(layer));
  }

  MlpConfig config_;
  std::vector<ParamSpec> specs_;
  std::vector<Layer> layers_;
  ModelContext context_;
  std::optional<MlpActivations> saved_;  ///< between forward and backward
};

}  // namespace

std::unique_ptr<Model> make_mlp(const MlpConfig& config) {
  return std::make_unique<Mlp>(config);
}

}  // namespace zero1
