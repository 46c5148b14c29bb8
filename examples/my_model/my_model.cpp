// A model of one's own, trained by ZeRO-1 Lab: a causal convolution over bytes, in one file.
//
// Below are the model (ConvNet), the configuration of a run, and three runs of it that must agree: on one
// rank, on two ranks, and on two ranks with communication that overlaps with computing. With a folder as its
// argument the program leaves a recording and a checkpoint there, for the tools of ZeRO-1 Lab.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/train_hooks.h"
#include "core/base/range.h"
#include "core/model/model.h"
#include "core/model/model_context.h"
#include "core/train/trainer.h"

namespace {

using zero1::Activation;
using zero1::Batch;
using zero1::ConstTensorView;
using zero1::ModelHooks;
using zero1::Range;
using zero1::TensorView;

// ---- the model ----

struct ConvNetConfig {
  std::int64_t vocab_size = 256;  // of bytes
  std::int64_t seq_length = 64;
  std::int64_t channels = 32;
  std::int64_t taps = 4;  // a convolution sees its position and the three before it
  int convolutions = 2;
  zero1::DType dtype = zero1::DType::fp32;
};

/// Predicts the next byte from the last taps * convolutions - convolutions + 1 bytes:
///
///   h[0][t] = token[byte t] + position[t]
///   h[l][t] = relu(W[l][0] h[l-1][t] + W[l][1] h[l-1][t-1] + ... + b[l])      (h[t] = 0 for t < 0)
///   logits  = head h[last]
///
/// Activations are [sequences * seq_length, channels], row-major: one row per token.
class ConvNet final : public zero1::Model {
 public:
  explicit ConvNet(const ConvNetConfig& config) : config_(config) {
    const std::int64_t C = config.channels;
    // The order here is the parameters' index, and their order in the buffers. A layer is what the pipeline
    // waits for: it gathers the parameters that a layer lists before the layer's forward begins.
    layers_.push_back(
        {"embed", {add("token", {config.vocab_size, C}), add("position", {config.seq_length, C})}});
    for (int l = 0; l < config.convolutions; ++l) {
      const std::string name = "conv." + std::to_string(l);
      layers_.push_back({name, {add(name + ".weight", {config.taps, C, C}), add(name + ".bias", {C})}});
    }
    layers_.push_back({"head", {add("head", {config.vocab_size, C})}});
  }

  const std::vector<zero1::ParamSpec>& param_specs() const override { return specs_; }
  const std::vector<zero1::Layer>& layers() const override { return layers_; }

  // The parameters and their gradients are views into the pipeline's buffers; the model owns neither.
  void bind(zero1::Device& device, zero1::Stream& compute, std::vector<zero1::ParamBinding> params) override {
    saved_.reset();
    context_ = zero1::make_model_context(device, compute, std::move(params), specs_);
  }

  void forward(const Batch& batch, TensorView loss_sum, float loss_grad_scale, ModelHooks& hooks) override {
    Activations a = forward_to_logits(batch, hooks);
    // Adds the loss to loss_sum, and replaces the logits by their gradient: backward begins with it.
    ops().cross_entropy(stream(), loss_sum, a.logits, batch.targets, batch.n_tokens(), config_.vocab_size,
                        loss_grad_scale);
    hooks.end_forward(head());
    saved_ = std::move(a);
  }

  // For text generation: the logits behind the last token of each sequence.
  void next_token_logits(const Batch& batch, TensorView logits, ModelHooks& hooks) override {
    const Activations a = forward_to_logits(batch, hooks);
    const std::int64_t V = config_.vocab_size;
    for (std::int64_t s = 0; s < batch.sequences; ++s) {
      const std::int64_t row = (s + 1) * batch.seq_len - 1;
      ops().cast(stream(), logits.slice({s * V, (s + 1) * V}),
                 ConstTensorView(a.logits).slice({row * V, (row + 1) * V}));
    }
    hooks.end_forward(head());
  }

  void evaluate(const Batch& batch, TensorView loss_sum, ModelHooks& hooks) override {
    const Activations a = forward_to_logits(batch, hooks);
    ops().cross_entropy_loss(stream(), loss_sum, a.logits, batch.targets, batch.n_tokens(),
                             config_.vocab_size);
    hooks.end_forward(head());
  }

  // From the last layer to the first. A parameter's gradient is added to its main_grad; then grad_ready says
  // so. When the last parameter of a bucket is ready, the bucket's reduction starts while backward goes on.
  void backward(ModelHooks& hooks) override {
    Activations a = std::move(saved_).value();
    saved_.reset();
    const std::int64_t N = a.batch.n_tokens();
    const std::int64_t C = config_.channels;
    const zero1::LinearShape shape{N, C, config_.vocab_size};

    hooks.begin_backward(head());
    zero1::linear_backward_weight(context_, param_of(head()), a.logits, a.h.back(), shape, hooks);
    hooks.grad_ready(param_of(head()));
    Activation d_h = context_.allocate(config_.dtype, N * C);
    zero1::linear_backward_input(context_, d_h, a.logits, param_of(head()), shape);
    a.logits.free();  // memory goes back as soon as its last reader is queued
    hooks.end_backward(head());

    for (int layer = head() - 1; layer > 0; --layer) {
      hooks.begin_backward(layer);
      const int weight = param_of(layer);
      const int bias = weight + 1;
      // d_h becomes the gradient before the ReLU, in place; a.h then ends with the layer's input.
      ops().relu_backward(stream(), d_h, d_h, a.h.back());
      a.h.pop_back();
      ops().bias_backward(stream(), context_.main_grad(bias), d_h, N, C);
      hooks.grad_ready(bias);
      Activation d_x = context_.allocate(config_.dtype, N * C);
      convolution_backward(a.batch, weight, d_x, d_h, a.h.back());
      hooks.grad_ready(weight);
      d_h = std::move(d_x);
      hooks.end_backward(layer);
    }

    hooks.begin_backward(0);
    ops().embedding_backward(stream(), context_.main_grad(0), context_.main_grad(1), d_h, a.batch.tokens, N,
                             a.batch.seq_len, C);
    hooks.grad_ready(1);
    hooks.grad_ready(0);
    hooks.end_backward(0);
  }

  // Optional: linear_backward_weight writes the whole main_grad, so that the pipeline need not zero it.
  bool fills_main_grad(int param) const override { return param == param_of(head()); }

  // A function of the seed and the parameter alone: every rank begins with the same values.
  std::vector<float> initial_values(int param, std::uint64_t seed) const override {
    const zero1::ParamSpec& spec = specs_.at(static_cast<std::size_t>(param));
    if (spec.shape.size() == 1) return std::vector<float>(static_cast<std::size_t>(spec.numel()), 0.0F);
    const bool convolution = spec.shape.size() == 3;
    const auto inputs = static_cast<double>(convolution ? config_.taps * config_.channels : config_.channels);
    const double stddev = param < 2 ? 0.5 : std::sqrt((convolution ? 2.0 : 1.0) / inputs);
    return zero1::normal_values(seed, param, spec.numel(), stddev);
  }

  // Two operations per weight forward, four backward.
  double flops_per_token(std::int64_t /*seq_len*/) const override {
    const auto C = static_cast<double>(config_.channels);
    return 6 * C *
           (config_.convolutions * static_cast<double>(config_.taps) * C +
            static_cast<double>(config_.vocab_size));
  }

 private:
  /// What forward leaves for backward.
  struct Activations {
    Batch batch;
    std::vector<Activation> h;
    Activation logits;
  };

  int add(std::string name, std::vector<std::int64_t> shape) {
    specs_.push_back({.name = std::move(name), .shape = std::move(shape), .dtype = config_.dtype});
    return static_cast<int>(specs_.size()) - 1;
  }

  int head() const { return config_.convolutions + 1; }                  ///< the last layer
  static int param_of(int layer) { return layer == 0 ? 0 : 2 * layer; }  ///< a layer's first parameter
  zero1::Ops& ops() const { return context_.ops(); }
  zero1::Stream& stream() const { return *context_.stream; }

  Activations forward_to_logits(const Batch& batch, ModelHooks& hooks) {
    const std::int64_t N = batch.n_tokens();
    const std::int64_t C = config_.channels;
    Activations a;
    a.batch = batch;

    hooks.begin_forward(0);
    a.h.push_back(context_.allocate(config_.dtype, N * C));
    ops().embedding_forward(stream(), a.h.back(), batch.tokens, context_.param(0), context_.param(1), N,
                            batch.seq_len, C);
    hooks.end_forward(0);

    for (int layer = 1; layer < head(); ++layer) {
      hooks.begin_forward(layer);
      Activation h = context_.allocate(config_.dtype, N * C);
      convolution_forward(batch, param_of(layer), h, a.h.back());
      ops().bias_relu_forward(stream(), h, context_.param(param_of(layer) + 1), N, C);
      a.h.push_back(std::move(h));
      hooks.end_forward(layer);
    }

    hooks.begin_forward(head());
    a.logits = context_.allocate(config_.dtype, N * config_.vocab_size);
    zero1::linear_forward(context_, a.logits, a.h.back(), param_of(head()), {N, C, config_.vocab_size});
    return a;
  }

  // A tap is a matrix product of rows that are shifted against each other: output row t takes input row t -
  // tap. Tap 0 covers all sequences at once. The others go sequence by sequence, since no row looks into the
  // sequence before its own.

  /// Calls product(tap, output rows, input rows) for every shifted product; rows as ranges of elements.
  template <class Product>
  void for_shifted(const Batch& batch, Product product) const {
    const std::int64_t C = config_.channels;
    for (std::int64_t tap = 1; tap < std::min(config_.taps, batch.seq_len); ++tap) {
      for (std::int64_t s = 0; s < batch.sequences; ++s) {
        const Range rows{s * batch.seq_len * C, (s + 1) * batch.seq_len * C};
        product(tap, Range{rows.start + tap * C, rows.end}, Range{rows.start, rows.end - tap * C});
      }
    }
  }

  Range tap_range(std::int64_t tap) const {
    const std::int64_t matrix = config_.channels * config_.channels;
    return {tap * matrix, (tap + 1) * matrix};
  }

  void convolution_forward(const Batch& batch, int weight, TensorView y, ConstTensorView x) const {
    const ConstTensorView w = context_.param(weight);
    multiply({.a = x, .b = w.slice(tap_range(0)), .c = y, .m = batch.n_tokens(), .transpose_b = true});
    for_shifted(batch, [&](std::int64_t tap, Range out, Range in) {
      multiply({.a = x.slice(in),
                .b = w.slice(tap_range(tap)),
                .c = y.slice(out),
                .m = in.size() / config_.channels,
                .transpose_b = true,
                .beta = 1});
    });
  }

  /// d_x = the gradient of the input; the weight's is added to its main_grad.
  void convolution_backward(const Batch& batch, int weight, TensorView d_x, ConstTensorView d_y,
                            ConstTensorView x) const {
    const ConstTensorView w = context_.param(weight);
    const TensorView d_w = context_.main_grad(weight);
    const std::int64_t C = config_.channels;
    multiply({.a = d_y, .b = w.slice(tap_range(0)), .c = d_x, .m = batch.n_tokens()});
    multiply({.a = d_y,
              .b = x,
              .c = d_w.slice(tap_range(0)),
              .m = C,
              .k = batch.n_tokens(),
              .transpose_a = true,
              .beta = 1});
    for_shifted(batch, [&](std::int64_t tap, Range out, Range in) {
      const std::int64_t rows = in.size() / C;
      multiply({.a = d_y.slice(out), .b = w.slice(tap_range(tap)), .c = d_x.slice(in), .m = rows, .beta = 1});
      multiply({.a = d_y.slice(out),
                .b = x.slice(in),
                .c = d_w.slice(tap_range(tap)),
                .m = C,
                .k = rows,
                .transpose_a = true,
                .beta = 1});
    });
  }

  /// A matrix product whose sizes are `channels` where they are not given.
  void multiply(zero1::MatmulArgs args) const {
    args.n = config_.channels;
    if (args.k == 0) args.k = config_.channels;
    ops().matmul(stream(), args);
  }

  ConvNetConfig config_;
  std::vector<zero1::ParamSpec> specs_;
  std::vector<zero1::Layer> layers_;
  zero1::ModelContext context_;
  std::optional<Activations> saved_;  ///< between forward and backward
};

// ---- the runs ----

struct Outcome {
  std::vector<double> losses;  ///< by step
  std::uint64_t param_hash = 0;
};

zero1::TrainConfig run_of(int dp) {
  zero1::TrainConfig config;
  config.model = "convnet";  // the name in recordings
  config.model_factory = [](const zero1::TrainConfig& c) -> std::unique_ptr<zero1::Model> {
    return std::make_unique<ConvNet>(ConvNetConfig{.vocab_size = c.padded_vocab_size(),
                                                   .seq_length = c.seq_length,
                                                   .channels = c.hidden_size,
                                                   .convolutions = c.num_layers,
                                                   .dtype = c.param_dtype});
  };
  config.num_layers = 2;
  config.hidden_size = 32;
  config.seq_length = 64;
  config.dp = dp;
  config.micro_batch_size = 8 / dp;  // the same global batch for every dp
  config.global_batch_size = 8;
  config.train_iters = 60;
  config.lr.lr = 1e-2;
  return config;
}

Outcome outcome_of(zero1::TrainConfig config, const std::string& checkpoints = "") {
  config = zero1::resolve(std::move(config));  // fills in defaults, and refuses what cannot work
  Outcome outcome;
  zero1::TrainObserver observer;
  observer.on_step = [&](const zero1::StepMetrics& step) { outcome.losses.push_back(step.loss); };
  std::optional<zero1::ckpt::Saver> saver;
  if (!checkpoints.empty()) {
    saver.emplace(zero1::ckpt::SaveOptions{.folder = checkpoints}, config);
    observer.on_rank_done = [&](int rank, zero1::RankTrainer& trainer) { saver->rank_done(rank, trainer); };
  }
  outcome.param_hash = zero1::train(config, observer).param_hash;
  if (saver) saver->finish();
  return outcome;
}

int run(const std::string& folder) {
  const Outcome one = outcome_of(run_of(1));
  const Outcome two = outcome_of(run_of(2));

  zero1::TrainConfig overlapped = run_of(2);
  overlapped.data_parallel.overlap_grad_reduce = true;
  overlapped.data_parallel.overlap_param_gather = true;
  overlapped.data_parallel.num_buckets = 3;
  if (!folder.empty()) overlapped.trace = folder + "/run.trace";
  const Outcome hidden = outcome_of(overlapped, folder.empty() ? "" : folder + "/checkpoints");

  double difference = 0;
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    difference = std::max(difference, std::abs(one.losses[i] - two.losses[i]));
  }
  std::printf("loss: %.4f at first, %.4f after %zu steps\n", one.losses.front(), one.losses.back(),
              one.losses.size());
  std::printf("one rank and two: losses differ by at most %.1e\n", difference);
  std::printf("two ranks, with and without overlap: %s parameters\n",
              two.param_hash == hidden.param_hash ? "the same" : "different");

  const bool learns = one.losses.back() < 0.5 * one.losses.front();
  const bool agrees = difference < 1e-4 && two.param_hash == hidden.param_hash && two.losses == hidden.losses;
  if (!learns) std::fprintf(stderr, "my_model: the loss has not halved\n");
  if (!agrees) std::fprintf(stderr, "my_model: the runs disagree\n");
  return learns && agrees ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fprintf(stderr, "usage: my_model [FOLDER for a recording and a checkpoint]\n");
    return 2;
  }
  try {
    return run(argc == 2 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "my_model: %s\n", error.what());
    return 1;
  }
}
