#include "core/model/gpt.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "tests/support/message.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model_harness.h"

using namespace zero1;
using test::HostBatch;
using test::message_of;
using test::ModelHarness;
using test::RecordingHooks;

namespace {

/// Small, and uneven wherever it may be.
GptConfig tiny(DType dtype = DType::fp32) {
  return {.vocab_size = 131,
          .max_seq_len = 11,
          .num_layers = 3,
          .hidden_size = 15,
          .num_heads = 3,
          .param_dtype = dtype};
}

const auto corpus = [](std::int64_t seq_len) { return TokenSource::arithmetic(4000, seq_len, 9); };

/// Weights large enough that attention is far from uniform and the GELU from its linear part.
void spread_params(ModelHarness& harness) {
  for (int i = 0; i < harness.param_count(); ++i) {
    auto values = harness.param(i);
    for (std::size_t j = 0; j < values.size(); ++j) {
      values[j] = values[j] * (values.size() > 100 ? 12.0F : 1.0F) + 0.1F * static_cast<float>(j % 5) - 0.2F;
    }
    harness.set_param(i, values);
  }
}

}  // namespace

TEST_CASE("parameters have the names and shapes of GPT-2, in model order, before any device is known") {
  const auto model = make_gpt(tiny(DType::bf16));
  const auto& specs = model->param_specs();
  REQUIRE(specs.size() == 2 + 3 * 12 + 2);
  CHECK(specs[0] == ParamSpec{"wte.weight", {131, 15}, DType::bf16});
  CHECK(specs[1] == ParamSpec{"wpe.weight", {11, 15}, DType::bf16});
  const std::vector<ParamSpec> block = {{"h.1.ln_1.weight", {15}, DType::bf16},
                                        {"h.1.ln_1.bias", {15}, DType::bf16},
                                        {"h.1.attn.c_attn.weight", {45, 15}, DType::bf16},
                                        {"h.1.attn.c_attn.bias", {45}, DType::bf16},
                                        {"h.1.attn.c_proj.weight", {15, 15}, DType::bf16},
                                        {"h.1.attn.c_proj.bias", {15}, DType::bf16},
                                        {"h.1.ln_2.weight", {15}, DType::bf16},
                                        {"h.1.ln_2.bias", {15}, DType::bf16},
                                        {"h.1.mlp.c_fc.weight", {60, 15}, DType::bf16},
                                        {"h.1.mlp.c_fc.bias", {60}, DType::bf16},
                                        {"h.1.mlp.c_proj.weight", {15, 60}, DType::bf16},
                                        {"h.1.mlp.c_proj.bias", {15}, DType::bf16}};
  CHECK(std::equal(block.begin(), block.end(), specs.begin() + 14));
  CHECK(specs.back() == ParamSpec{"ln_f.bias", {15}, DType::bf16});

  const auto& layers = model->layers();
  REQUIRE(layers.size() == 6);
  CHECK(layers[0].name == "embedding");
  CHECK(layers[0].params == std::vector<int>{0, 1});
  CHECK(layers[2].name == "h.1");
  std::vector<int> block_params(12);
  std::iota(block_params.begin(), block_params.end(), 14);
  CHECK(layers[2].params == block_params);
  CHECK(layers[4].name == "ln_f");
  CHECK(layers[4].params == std::vector<int>{38, 39});
  CHECK(layers[5].name == "head");
  CHECK(layers[5].params == std::vector<int>{0});
}

TEST_CASE("backward is the slope of the loss for every parameter") {
  for (const std::int64_t seq_len : {1, 3, 7, 11}) {
    CAPTURE(seq_len);
    ModelHarness harness(make_gpt(tiny()), DType::fp32, 5);
    spread_params(harness);
    if (seq_len == 1) {
      // Attention over one token is the identity: the gradients of q and k are zero, and nothing else is.
      const HostBatch batch(*corpus(1), 0, 3);
      harness.forward(batch);
      harness.backward();
      const auto bias = harness.grad(2 + 3);
      for (std::size_t j = 0; j < 45; ++j) CHECK((bias[j] != 0) == (j >= 30));
      continue;
    }
    test::check_gradients_by_differences(harness, HostBatch(*corpus(seq_len), 0, 3), 3e-3);
  }
}

TEST_CASE("the gradient scale multiplies, and gradients of microbatches add up") {
  const auto source = corpus(7);
  ModelHarness whole(make_gpt(tiny()), DType::fp32), parts(make_gpt(tiny()), DType::fp32);
  ModelHooks none;
  const HostBatch all(*source, 0, 5), first(*source, 0, 2), second(*source, 2, 3);
  whole.model->forward(all.view(), whole.loss_sum(), 1.0F, none);
  whole.model->backward(none);
  double sum = 0;
  for (const HostBatch* batch : {&first, &second}) {
    sum += parts.mean_loss(
               *batch, [&](const Batch& b, TensorView s) { parts.model->forward(b, s, 2.0F, none); }, 10.0) *
           static_cast<double>(batch->view().n_tokens());
    parts.model->backward(none);
  }
  CHECK(sum == doctest::Approx(whole.evaluate(all) * 35).epsilon(1e-6));
  for (int i = 0; i < whole.param_count(); ++i) {
    const auto expected = whole.grad(i), got = parts.grad(i);
    const double norm = std::sqrt(test::dot(expected, expected));
    for (std::size_t j = 0; j < expected.size(); ++j)
      CHECK(std::abs(got[j] - 2 * expected[j]) < 1e-5 * norm + 1e-6);
  }
}

TEST_CASE("hooks come in pairs and in order; every gradient is reported, the tied one twice") {
  ModelHarness harness(make_gpt(tiny()), DType::fp32);
  const HostBatch batch(*corpus(5), 0, 2);
  const int layers = static_cast<int>(harness.model->layers().size());

  RecordingHooks hooks;
  harness.forward(batch, hooks);
  std::vector<std::string> expected;
  for (int layer = 0; layer < layers; ++layer) {
    expected.push_back("begin_forward " + std::to_string(layer));
    expected.push_back("end_forward " + std::to_string(layer));
  }
  CHECK(hooks.calls == expected);

  hooks.calls.clear();
  harness.model->backward(hooks);
  expected.clear();
  // Reverse model order within every layer: the order in which parameters lie in the buffers.
  for (int layer = layers - 1; layer >= 0; --layer) {
    expected.push_back("begin_backward " + std::to_string(layer));
    auto params = harness.model->layers()[static_cast<std::size_t>(layer)].params;
    std::reverse(params.begin(), params.end());
    for (const int param : params) expected.push_back("grad_ready " + std::to_string(param));
    expected.push_back("end_backward " + std::to_string(layer));
  }
  CHECK(hooks.calls == expected);
  CHECK(std::count(expected.begin(), expected.end(), "grad_ready 0") == 2);

  RecordingHooks evaluation;
  harness.mean_loss(batch,
                    [&](const Batch& b, TensorView sum) { harness.model->evaluate(b, sum, evaluation); });
  CHECK(evaluation.calls.size() == 2 * static_cast<std::size_t>(layers));
}

TEST_CASE("when a gradient is reported, nothing is added to it any more") {
  class Snapshot : public ModelHooks {
   public:
    explicit Snapshot(ModelHarness& harness) : harness_(harness) {}
    void grad_ready(int param) override { at_report[param] = harness_.grad(param); }
    std::map<int, std::vector<float>> at_report;

   private:
    ModelHarness& harness_;
  };
  ModelHarness harness(make_gpt(tiny()), DType::fp32);
  const HostBatch batch(*corpus(7), 0, 2);
  harness.forward(batch);
  Snapshot snapshot(harness);
  harness.model->backward(snapshot);
  REQUIRE(snapshot.at_report.size() == static_cast<std::size_t>(harness.param_count()));
  for (const auto& [param, grad] : snapshot.at_report) {
    CHECK(grad == harness.grad(param));
    CHECK(test::dot(grad, grad) > 0);
  }
}

TEST_CASE("activations grow layer by layer in forward, shrink in backward, and are gone after it") {
  class Watch : public ModelHooks {
   public:
    explicit Watch(ModelHarness& harness) : harness_(harness) {}
    void end_forward(int /*layer*/) override { bytes.push_back(harness_.activation_bytes()); }
    void end_backward(int /*layer*/) override { bytes.push_back(harness_.activation_bytes()); }
    std::vector<std::int64_t> bytes;

   private:
    ModelHarness& harness_;
  };
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    ModelHarness harness(make_gpt(tiny(dtype)), DType::fp32);
    const HostBatch batch(*corpus(7), 0, 3);
    Watch forward(harness), backward(harness), evaluation(harness);
    harness.forward(batch, forward);
    CHECK(std::is_sorted(forward.bytes.begin(), forward.bytes.end()));
    // Per block: x, ln_1, qkv, attended, x_mid, ln_2, fc, gelu are 16 C per token, the probabilities
    // H·T, and two norms keep two fp32 numbers each.
    const std::int64_t N = 21;
    CHECK(forward.bytes[3] - forward.bytes[2] == N * (16 * 15 + 3 * 7) * size_bytes(dtype) + N * 4 * 4);
    harness.model->backward(backward);
    CHECK(std::is_sorted(backward.bytes.rbegin(), backward.bytes.rend()));
    CHECK(harness.activation_bytes() == 0);

    // Evaluation keeps one block at most.
    const std::int64_t x = N * 15 * size_bytes(dtype);
    harness.mean_loss(batch,
                      [&](const Batch& b, TensorView sum) { harness.model->evaluate(b, sum, evaluation); });
    CHECK(evaluation.bytes[0] == x);
    CHECK(evaluation.bytes[3] == x);
    CHECK(harness.activation_bytes() == 0);
  }
}

TEST_CASE("evaluate gives the loss of forward, bit by bit, and leaves gradients alone") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    ModelHarness harness(make_gpt(tiny(dtype)), DType::fp32);
    const HostBatch batch(*corpus(7), 0, 3);
    const double loss = harness.evaluate(batch);
    CHECK(loss == harness.forward(batch));
    CHECK(loss == doctest::Approx(std::log(131.0)).epsilon(0.02));
    CHECK(harness.evaluate(batch) == loss);
    for (int i = 0; i < harness.param_count(); ++i) CHECK(test::dot(harness.grad(i), harness.grad(i)) == 0);
  }
}

TEST_CASE("a rerun gives the same bits, also with several threads") {
  for (const int threads : {1, 2}) {
    if (threads > 1 && test::under_tsan) break;  // OpenMP's pool is not known to it
    const auto run = [&] {
      ModelHarness harness(make_gpt(tiny()), DType::fp32, 1, threads);
      const HostBatch batch(*corpus(11), 0, 4);
      harness.forward(batch);
      harness.backward();
      std::vector<std::vector<float>> grads;
      for (int i = 0; i < harness.param_count(); ++i) grads.push_back(harness.grad(i));
      return grads;
    };
    CHECK(run() == run());
  }
}

TEST_CASE("positions beyond the sequence receive no gradient") {
  ModelHarness harness(make_gpt(tiny()), DType::fp32);
  const HostBatch batch(*corpus(4), 0, 3);
  harness.forward(batch);
  harness.backward();
  const auto wpe = harness.grad(1);
  for (std::size_t i = 0; i < wpe.size(); ++i) CHECK((wpe[i] != 0) == (i < 4 * 15));
}

TEST_CASE("initial values follow GPT-2 and depend on seed and parameter alone") {
  const GptConfig config{.num_layers = 8, .hidden_size = 64, .num_heads = 4};
  const auto model = make_gpt(config);
  GptConfig low = config;
  low.param_dtype = DType::bf16;
  const auto low_model = make_gpt(low);
  for (int i = 0; i < static_cast<int>(model->param_specs().size()); ++i) {
    const ParamSpec& spec = model->param_specs()[static_cast<std::size_t>(i)];
    CAPTURE(spec.name);
    const auto values = model->initial_values(i, 7);
    REQUIRE(static_cast<std::int64_t>(values.size()) == spec.numel());
    CHECK(values == low_model->initial_values(i, 7));
    if (spec.shape.size() == 1) {
      const float expected =
          spec.name.find("ln_") != std::string::npos && spec.name.ends_with("weight") ? 1.0F : 0.0F;
      CHECK(values == std::vector<float>(values.size(), expected));
      continue;
    }
    CHECK(values != model->initial_values(i, 8));
    const double deviation = std::sqrt(test::dot(values, values) / static_cast<double>(values.size()));
    CHECK(deviation == doctest::Approx(spec.name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02).epsilon(0.05));
  }
  CHECK(model->initial_values(4, 7) != model->initial_values(16, 7));
}

TEST_CASE("what cannot be is refused by name") {
  const auto why = [](const GptConfig& config) { return message_of<InputError>([&] { make_gpt(config); }); };
  CHECK(why({.hidden_size = 10, .num_heads = 3}) == "hidden_size 10 is not divisible by num_heads 3");
  CHECK(why({.vocab_size = 0}).find("vocab_size is 0") == 0);
  CHECK(why({.max_seq_len = -5}).find("max_seq_len is -5") == 0);
  CHECK(why({.num_layers = 0}).find("num_layers is 0") == 0);
  CHECK(why({.hidden_size = INT64_MAX}).find("hidden_size is 9223372036854775807") == 0);
  CHECK(why({.num_heads = 0}).find("num_heads is 0") == 0);
  CHECK(why({.param_dtype = DType::fp64}).find("param_dtype") == 0);

  ModelHarness harness(make_gpt(tiny()), DType::fp32);
  CHECK(message_of<InputError>([&] { harness.forward(HostBatch(*corpus(12), 0, 1)); }).find("12 tokens") !=
        std::string::npos);
  CHECK_THROWS_AS(harness.backward(), std::logic_error);
  ModelHooks none;
  CHECK_THROWS_AS(make_gpt(tiny())->evaluate({}, harness.loss_sum(), none), std::logic_error);

  auto bindings = harness.bound;
  bindings[3].main_grad.numel -= 1;
  CHECK(message_of<std::invalid_argument>([&] {
          make_gpt(tiny())->bind(*harness.device, *harness.stream, bindings);
        }).find("'h.0.ln_1.bias' has 15 elements of float32") != std::string::npos);
  bindings.pop_back();
  CHECK_THROWS_AS(make_gpt(tiny())->bind(*harness.device, *harness.stream, bindings), std::invalid_argument);
}

TEST_CASE("operations per token are those of the matrix products, three passes of two") {
  // 124M of GPT-2: 12 layers of 12·768², head 768·50257, attention 2·768·1024 per layer; times 6.
  const auto model = make_gpt(
      {.vocab_size = 50257, .max_seq_len = 1024, .num_layers = 12, .hidden_size = 768, .num_heads = 12});
  CHECK(model->flops_per_token(1024) == 6.0 * (12 * (12.0 * 768 * 768 + 2.0 * 768 * 1024) + 768.0 * 50257));
}

TEST_CASE("the logits of the next token are those that the loss is computed from") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    CAPTURE(name(dtype));
    constexpr std::int64_t vocab = 256;
    ModelHarness harness(
        make_gpt(
            {.max_seq_len = 7, .num_layers = 2, .hidden_size = 12, .num_heads = 3, .param_dtype = dtype}),
        DType::fp32, 3);
    const HostBatch whole(*corpus(7), 0, 3);
    const DeviceMemory memory = harness.device->allocate(3 * vocab * size_bytes(dtype), MemoryKind::other);
    RecordingHooks hooks;
    harness.model->next_token_logits({whole.tokens.data(), nullptr, 3, 7}, memory.view(dtype), hooks);
    CHECK(hooks.calls.size() == 2 * harness.model->layers().size());
    CHECK(harness.activation_bytes() == 0);
    std::vector<float> logits(3 * vocab);
    harness.device->ops().cast(*harness.stream, {logits.data(), DType::fp32, 3 * vocab}, memory.view(dtype));
    for (std::int64_t s = 0; s < 3; ++s) {
      // What a sequence's last token adds to its loss.
      HostBatch one(*corpus(7), s, 1);
      const double all = 7 * harness.evaluate(one);
      one.seq_len = 6;
      const double without_last = 6 * harness.evaluate(one);
      double sum = 0;
      for (std::int64_t v = 0; v < vocab; ++v)
        sum += std::exp(logits[static_cast<std::size_t>(s * vocab + v)]);
      const double loss = std::log(sum) - logits[static_cast<std::size_t>(s * vocab + one.targets[6])];
      CHECK(loss == doctest::Approx(all - without_last).epsilon(dtype == DType::fp32 ? 1e-5 : 1e-2));
    }
  }
}
