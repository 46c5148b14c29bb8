// The GPT's step 1 against float64 references: loss, gradient norm, and every parameter's gradient.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/data/safetensors.h"
#include "core/model/gpt.h"
#include "tests/unit/model_harness.h"

using namespace zero1;
using test::HostBatch;
using test::ModelHarness;

namespace {

nlohmann::json read_json(const std::string& file) {
  std::ifstream in(std::string(ZERO1_GOLDEN_DIR "/") + file);
  REQUIRE(in);
  return nlohmann::json::parse(in);
}

/// One golden case, loaded into a model of its own.
struct GoldenRun {
  explicit GoldenRun(const std::string& name, DType dtype = DType::fp32, DType grad_dtype = DType::fp32)
      : reference(read_json(name + ".json")),
        config(reference["config"]),
        source(TokenSource::from_file(ZERO1_GOLDEN_DIR "/corpus.txt", config["seq_len"])),
        harness(make_gpt({.vocab_size = config["vocab"],
                          .max_seq_len = config["seq_len"],
                          .num_layers = config["layers"],
                          .hidden_size = config["d_model"],
                          .num_heads = config["heads"],
                          .param_dtype = dtype}),
                grad_dtype) {
    const SafetensorsReader weights(std::string(ZERO1_GOLDEN_DIR "/") + name + ".init.safetensors");
    CHECK(weights.entries().size() == harness.model->param_specs().size());
    for (int i = 0; i < harness.param_count(); ++i) {
      const ParamSpec& spec = harness.model->param_specs()[static_cast<std::size_t>(i)];
      const SafetensorsEntry* entry = weights.find(spec.name);
      REQUIRE_MESSAGE(entry != nullptr, spec.name);
      REQUIRE(entry->shape == spec.shape);
      harness.set_param(i, weights.read_fp32(*entry, {0, entry->numel()}));
    }
  }

  /// Forward and backward over the global batch in microbatches; returns the mean loss.
  double run_step(std::int64_t micro_batch) {
    const std::int64_t global_batch = config["global_batch"];
    const float scale = 1.0F / static_cast<float>(global_batch * source->seq_len());
    double* sum = harness.loss_sum().as<double>();
    *sum = 0;
    ModelHooks none;
    for (std::int64_t first = 0; first < global_batch; first += micro_batch) {
      const HostBatch batch(*source, first, std::min(micro_batch, global_batch - first));
      harness.model->forward(batch.view(), harness.loss_sum(), scale, none);
      harness.model->backward(none);
    }
    return *sum * scale;
  }

  double grad_norm() const {
    double squares = 0;
    for (int i = 0; i < harness.param_count(); ++i) squares += test::dot(harness.grad(i), harness.grad(i));
    return std::sqrt(squares);
  }

  nlohmann::json reference, config;
  std::shared_ptr<const TokenSource> source;
  ModelHarness harness;
};

/// The fixed vector of gpt_gradients.json.
double projection(const std::vector<float>& grad) {
  double sum = 0;
  for (std::size_t i = 0; i < grad.size(); ++i)
    sum += grad[i] * (static_cast<double>(i * 7919 % 1013) / 1013 - 0.5);
  return sum;
}

}  // namespace

TEST_CASE("step 1 of the golden runs in fp32, whatever the microbatch") {
  const nlohmann::json gradients = read_json("gpt_gradients.json");
  for (const char* name : {"gpt-a", "gpt-b"}) {
    for (const std::int64_t micro_batch : {12, 4, 3, 1}) {
      CAPTURE(name);
      CAPTURE(micro_batch);
      GoldenRun run(name);
      const double loss = run.run_step(micro_batch);
      const auto& expected = run.reference["float64"][0];
      CHECK(std::abs(loss - expected["loss"].get<double>()) < 1e-6);
      CHECK(run.grad_norm() == doctest::Approx(expected["grad_norm"].get<double>()).epsilon(1e-5));
      for (int i = 0; i < run.harness.param_count(); ++i) {
        const std::string& param = run.harness.model->param_specs()[static_cast<std::size_t>(i)].name;
        CAPTURE(param);
        const auto& reference = gradients[name]["gradients"][param];
        const std::vector<float> grad = run.harness.grad(i);
        const double norm = reference["norm"];
        CHECK(std::sqrt(test::dot(grad, grad)) == doctest::Approx(norm).epsilon(2e-5));
        // The fixed vector has entries of about 0.3: errors of 1e-5 per element add up like a walk.
        CHECK(std::abs(projection(grad) - reference["projection"].get<double>()) < 2e-5 * norm);
      }
    }
  }
}

TEST_CASE("step 1 in bf16 and fp16 stays within the precision of the storage type") {
  struct Precision {
    DType dtype, grad_dtype;
    double loss_tolerance, norm_tolerance, direction_tolerance;
  };
  const Precision precisions[] = {{DType::bf16, DType::fp32, 1e-2, 1e-2, 5e-4},
                                  {DType::bf16, DType::bf16, 1e-2, 1e-2, 1e-3},
                                  {DType::fp16, DType::fp32, 2e-3, 2e-3, 1e-4}};
  for (const char* name : {"gpt-a", "gpt-b"}) {
    GoldenRun exact(name);
    exact.run_step(4);
    for (const Precision& p : precisions) {
      CAPTURE(name);
      CAPTURE(zero1::name(p.dtype));
      CAPTURE(zero1::name(p.grad_dtype));
      GoldenRun run(name, p.dtype, p.grad_dtype);
      const double loss = run.run_step(4);
      CHECK(std::abs(loss - run.reference["float64"][0]["loss"].get<double>()) < p.loss_tolerance);
      CHECK(run.grad_norm() == doctest::Approx(exact.grad_norm()).epsilon(p.norm_tolerance));
      for (int i = 0; i < run.harness.param_count(); ++i) {
        CAPTURE(run.harness.model->param_specs()[static_cast<std::size_t>(i)].name);
        const auto a = run.harness.grad(i);
        const auto b = exact.harness.grad(i);
        const double cosine = test::dot(a, b) / std::sqrt(test::dot(a, a) * test::dot(b, b));
        CHECK(1 - cosine < p.direction_tolerance);
      }
    }
  }
}
