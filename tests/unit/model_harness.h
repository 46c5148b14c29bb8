// One model on one CPU device with plain buffers of its own: what the pipeline does, without the pipeline.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/data/token_source.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/device.h"
#include "core/model/model.h"

namespace zero1::test {

/// Writes down every call of a model.
class RecordingHooks : public ModelHooks {
 public:
  void begin_forward(int layer) override { calls.push_back("begin_forward " + std::to_string(layer)); }
  void end_forward(int layer) override { calls.push_back("end_forward " + std::to_string(layer)); }
  void begin_backward(int layer) override { calls.push_back("begin_backward " + std::to_string(layer)); }
  void end_backward(int layer) override { calls.push_back("end_backward " + std::to_string(layer)); }
  void grad_ready(int param) override { calls.push_back("grad_ready " + std::to_string(param)); }

  std::vector<std::string> calls;
};

/// Tokens and targets of sequences [first, first + count) of a corpus.
struct HostBatch {
  HostBatch(const TokenSource& source, std::int64_t first, std::int64_t count)
      : sequences(count), seq_len(source.seq_len()) {
    tokens.resize(static_cast<std::size_t>(count * seq_len));
    targets.resize(tokens.size());
    for (std::int64_t i = 0; i < count; ++i) {
      source.read(first + i, tokens.data() + i * seq_len, targets.data() + i * seq_len);
    }
  }
  /// A CPU device reads host memory.
  Batch view() const { return {tokens.data(), targets.data(), sequences, seq_len}; }

  std::int64_t sequences, seq_len;
  std::vector<std::int32_t> tokens, targets;
};

/// Buffers with 64 sentinel elements around every tensor; parameters from initial_values, gradients zero.
class ModelHarness {
 public:
  static constexpr std::int64_t guard = 64;

  ModelHarness(std::unique_ptr<Model> owned, DType grad_dtype, std::uint64_t seed = 1, int threads = 1)
      : device(make_cpu_device({threads})),
        stream(device->create_stream(StreamKind::compute)),
        model(std::move(owned)),
        loss(device->allocate(8, MemoryKind::other)) {
    std::vector<ParamBinding> bindings;
    for (const ParamSpec& spec : model->param_specs()) {
      bindings.push_back({guarded(spec.numel(), spec.dtype), guarded(spec.numel(), grad_dtype)});
    }
    bound = bindings;
    for (int i = 0; i < param_count(); ++i) set_param(i, model->initial_values(i, seed));
    zero_grads();
    model->bind(*device, *stream, std::move(bindings));
  }
  ModelHarness(const ModelHarness&) = delete;
  ~ModelHarness() {
    check_guards();
    model.reset();
  }

  int param_count() const { return static_cast<int>(model->param_specs().size()); }

  void set_param(int index, const std::vector<float>& values) {
    const TensorView param = bound[static_cast<std::size_t>(index)].param;
    REQUIRE(static_cast<std::int64_t>(values.size()) == param.numel);
    device->ops().cast(*stream, param, {values.data(), DType::fp32, param.numel});
  }
  std::vector<float> param(int index) const { return widen(bound[static_cast<std::size_t>(index)].param); }
  std::vector<float> grad(int index) const { return widen(bound[static_cast<std::size_t>(index)].main_grad); }
  void zero_grads() {
    for (const ParamBinding& binding : bound) device->ops().fill(*stream, binding.main_grad, 0);
  }

  /// The mean loss of a batch; `run` is forward or evaluate. The sum starts from `sum_before`.
  template <class Run>
  double mean_loss(const HostBatch& batch, Run&& run, double sum_before = 0) {
    *loss_sum().as<double>() = sum_before;
    run(batch.view(), loss_sum());
    return (*loss_sum().as<double>() - sum_before) / static_cast<double>(batch.view().n_tokens());
  }
  double forward(const HostBatch& batch, ModelHooks& hooks) {
    const float scale = 1.0F / static_cast<float>(batch.view().n_tokens());
    return mean_loss(batch, [&](const Batch& b, TensorView sum) { model->forward(b, sum, scale, hooks); });
  }
  double forward(const HostBatch& batch) {
    ModelHooks none;
    return forward(batch, none);
  }
  double evaluate(const HostBatch& batch) {
    ModelHooks none;
    return mean_loss(batch, [&](const Batch& b, TensorView sum) { model->evaluate(b, sum, none); });
  }
  void backward() {
    ModelHooks none;
    model->backward(none);
  }

  TensorView loss_sum() const { return loss.view(DType::fp64); }
  std::int64_t activation_bytes() const { return device->allocated_bytes(MemoryKind::activations); }

  void check_guards() const {
    for (const DeviceMemory& memory : buffers) {
      const auto* bytes = static_cast<const unsigned char*>(memory.data());
      for (std::int64_t i = 0; i < guard; ++i) {
        REQUIRE(bytes[i] == 0xA5);
        REQUIRE(bytes[memory.bytes() - 1 - i] == 0xA5);
      }
    }
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Model> model;
  std::vector<DeviceMemory> buffers;
  std::vector<ParamBinding> bound;
  DeviceMemory loss;

 private:
  TensorView guarded(std::int64_t numel, DType dtype) {
    const std::int64_t bytes = numel * size_bytes(dtype);
    buffers.push_back(device->allocate(bytes + 2 * guard, MemoryKind::parameters));
    std::memset(buffers.back().data(), 0xA5, static_cast<std::size_t>(bytes + 2 * guard));
    return {static_cast<char*>(buffers.back().data()) + guard, dtype, numel};
  }
  std::vector<float> widen(ConstTensorView view) const {
    std::vector<float> values(static_cast<std::size_t>(view.numel));
    device->ops().cast(*stream, {values.data(), DType::fp32, view.numel}, view);
    return values;
  }
};

inline double dot(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// Compares every parameter's gradient with the slope of the loss: (L(p + h·d) - L(p - h·d)) / 2h = g·d,
/// along d, which is the gradient's own direction mixed with a fixed one, so that no slope is near zero.
inline void check_gradients_by_differences(ModelHarness& harness, const HostBatch& batch, double tolerance) {
  harness.zero_grads();
  harness.forward(batch);
  harness.backward();
  for (int i = 0; i < harness.param_count(); ++i) {
    const std::string& name = harness.model->param_specs()[static_cast<std::size_t>(i)].name;
    CAPTURE(name);
    const std::vector<float> grad = harness.grad(i);
    const double norm = std::sqrt(dot(grad, grad));
    REQUIRE(norm > 0);
    std::vector<float> direction(grad.size());
    const double fixed = 0.5 / std::sqrt(static_cast<double>(grad.size()));
    for (std::size_t j = 0; j < grad.size(); ++j) {
      direction[j] = static_cast<float>(grad[j] / norm + (j % 3 == 0 ? fixed : -fixed));
    }
    const std::vector<float> original = harness.param(i);
    const float h = 1e-2F;
    const auto loss_at = [&](float step) {
      std::vector<float> moved = original;
      for (std::size_t j = 0; j < moved.size(); ++j) moved[j] += step * direction[j];
      harness.set_param(i, moved);
      return harness.evaluate(batch);
    };
    // Two central differences, combined so that the error of order h² cancels.
    const double wide = (loss_at(h) - loss_at(-h)) / (2.0 * h);
    const double narrow = (loss_at(h / 2) - loss_at(-h / 2)) / h;
    const double slope = (4 * narrow - wide) / 3;
    harness.set_param(i, original);
    CHECK(std::abs(slope - dot(grad, direction)) <= tolerance * norm + 1e-5);
  }
}

}  // namespace zero1::test
