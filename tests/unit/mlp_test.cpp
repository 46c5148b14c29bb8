#include "core/model/mlp.h"

#include "core/base/error.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model_harness.h"

using namespace zero1;
using test::HostBatch;
using test::message_of;
using test::ModelHarness;
using test::RecordingHooks;

namespace {

const auto corpus = [](std::int64_t seq_len) { return TokenSource::arithmetic(4000, seq_len, 9); };

}  // namespace

TEST_CASE("the MLP's backward is the slope of its loss, for uneven sizes") {
  for (const int layers : {1, 3}) {
    for (const std::int64_t hidden : {1, 7, 16}) {
      CAPTURE(layers);
      CAPTURE(hidden);
      ModelHarness harness(make_mlp({.hidden_size = hidden, .num_layers = layers}), DType::fp32, 3);
      for (int i = 0; i < harness.param_count(); ++i) {
        auto values = harness.param(i);
        for (std::size_t j = 0; j < values.size(); ++j) {
          // Biases off zero, so that some ReLUs are open and some closed, few on their edge. A layer of
          // one unit is kept open: behind a closed one no gradient would be left to check.
          if (i % 2 == 1)
            values[j] = j % 3 == 1 ? -0.5F : 1.0F;
          else if (hidden == 1)
            values[j] = std::abs(values[j]);
        }
        harness.set_param(i, values);
      }
      test::check_gradients_by_differences(harness, HostBatch(*corpus(5), 0, 3), 2e-2);
    }
  }
}

TEST_CASE("the MLP tells its hooks of layers in order and of each parameter once") {
  ModelHarness harness(make_mlp({.hidden_size = 5, .num_layers = 1}), DType::fp32);
  CHECK(harness.model->layers().size() == 3);
  const HostBatch batch(*corpus(3), 0, 1);
  RecordingHooks hooks;
  harness.forward(batch, hooks);
  CHECK(hooks.calls == std::vector<std::string>{"begin_forward 0", "end_forward 0", "begin_forward 1",
                                                "end_forward 1", "begin_forward 2", "end_forward 2"});
  hooks.calls.clear();
  CHECK(harness.activation_bytes() > 0);
  harness.model->backward(hooks);
  CHECK(hooks.calls == std::vector<std::string>{"begin_backward 2", "grad_ready 5", "grad_ready 4",
                                                "end_backward 2", "begin_backward 1", "grad_ready 3",
                                                "grad_ready 2", "end_backward 1", "begin_backward 0",
                                                "grad_ready 1", "grad_ready 0", "end_backward 0"});
  CHECK(harness.activation_bytes() == 0);
  CHECK_THROWS_AS(harness.backward(), std::logic_error);
}

TEST_CASE("the MLP learns, and evaluates to the loss of forward") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    ModelHarness harness(make_mlp({.hidden_size = 32, .num_layers = 2, .param_dtype = dtype}), DType::fp32);
    const HostBatch batch(*corpus(64), 0, 8);
    const double first = harness.evaluate(batch);
    CHECK(harness.activation_bytes() == 0);
    CHECK(harness.forward(batch) == first);
    harness.backward();
    for (int step = 0; step < 60; ++step) {
      harness.zero_grads();
      harness.forward(batch);
      harness.backward();
      for (int i = 0; i < harness.param_count(); ++i) {
        auto value = harness.param(i);
        const auto grad = harness.grad(i);
        for (std::size_t j = 0; j < value.size(); ++j) value[j] -= 0.3F * grad[j];
        harness.set_param(i, value);
      }
    }
    CHECK(harness.evaluate(batch) < first / 2);
  }
}

TEST_CASE("the MLP refuses sizes it cannot have, by name") {
  CHECK(message_of<InputError>([] { make_mlp({.vocab_size = 0}); }).find("vocab_size is 0") == 0);
  CHECK(message_of<InputError>([] { make_mlp({.hidden_size = -1}); }).find("hidden_size is -1") == 0);
  CHECK(message_of<InputError>([] { make_mlp({.num_layers = 0}); }).find("num_layers is 0") == 0);
  CHECK(message_of<InputError>([] { make_mlp({.param_dtype = DType::fp64}); }).find("param_dtype") == 0);
  const auto model = make_mlp({.hidden_size = 3});
  CHECK_THROWS_AS(model->evaluate({}, {}, *std::make_unique<ModelHooks>()), std::logic_error);
}

TEST_CASE("the MLP's logits of the next token are those that its loss is computed from") {
  constexpr std::int64_t vocab = 256;
  ModelHarness harness(make_mlp({.hidden_size = 9, .num_layers = 2}), DType::fp32, 3);
  harness.set_param(7, std::vector<float>(vocab, 0.5F));  // biases count
  const HostBatch batch(*corpus(5), 0, 2);
  const DeviceMemory memory =
      harness.device->allocate(2 * vocab * size_bytes(DType::fp32), MemoryKind::other);
  RecordingHooks hooks;
  harness.model->next_token_logits({batch.tokens.data(), nullptr, 2, 5}, memory.view(DType::fp32), hooks);
  CHECK(hooks.calls.size() == 2 * harness.model->layers().size());
  const auto* logits = static_cast<const float*>(memory.data());
  for (std::size_t s = 0; s < 2; ++s) {
    HostBatch last(*corpus(1), static_cast<std::int64_t>(5 * s + 4), 1);
    double sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(logits[s * vocab + v]);
    const double loss = std::log(sum) - logits[s * vocab + static_cast<std::size_t>(last.targets[0])];
    CHECK(loss == doctest::Approx(harness.evaluate(last)).epsilon(1e-5));
  }
}
