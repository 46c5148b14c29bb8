// Steps that are skipped: what they move, when they are a fault, and when a run of them ends.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/train/trainer.h"
#include "core/train/weights.h"
#include "tests/support/message.h"

using namespace zero1;
using test::contains;
using test::message_of;

namespace {

TrainConfig small(DType dtype, std::int64_t iterations) {
  TrainConfig c;
  c.num_layers = 1;
  c.hidden_size = 12;
  c.num_attention_heads = 3;
  c.seq_length = 8;
  c.dp = 2;
  c.param_dtype = dtype;
  c.train_iters = iterations;
  c.lr.lr = 1e-3;
  c.threads_per_rank = 1;
  return c;
}

/// Searches for its scale and skips until it has found it.
TrainConfig searching(std::int64_t iterations) {
  TrainConfig c = small(DType::fp16, iterations);
  c.loss_scale.initial_scale = 0x1p34;
  c.loss_scale.hysteresis = 1;
  return c;
}

std::vector<StepMetrics> steps_of(const TrainConfig& config, TrainSummary* summary = nullptr) {
  std::vector<StepMetrics> steps;
  TrainObserver observer;
  observer.on_step = [&](const StepMetrics& m) { steps.push_back(m); };
  const TrainSummary done = train(resolve(config), observer);
  if (summary != nullptr) *summary = done;
  return steps;
}

/// The error of a run whose ranks `poisoned` begin with a NaN in a parameter.
std::string error_with_nan(const TrainConfig& config, const std::set<int>& poisoned) {
  TrainObserver observer;
  observer.on_rank_ready = [&](int rank, RankTrainer& trainer) {
    if (!poisoned.contains(rank)) return;
    std::vector<float> values = get_param(trainer.data_parallel(), 2);
    values.front() = std::numeric_limits<float>::quiet_NaN();
    set_param(trainer.data_parallel(), 2, values);
    trainer.optimizer().reload_model_params();
  };
  return message_of<Error>([&] { train(resolve(config), observer); });
}

}  // namespace

TEST_CASE("a skipped step does not move the schedule, and is counted") {
  TrainConfig config = searching(30);
  config.lr.warmup_iters = 6;
  config.lr.style = LrDecayStyle::cosine;
  TrainSummary summary;
  const std::vector<StepMetrics> steps = steps_of(config, &summary);
  const TrainConfig resolved = resolve(config);
  std::int64_t skipped = 0;
  for (const StepMetrics& step : steps) {
    CAPTURE(step.step);
    CHECK(step.lr == learning_rate(resolved.lr, static_cast<double>(step.step - 1 - skipped)));
    skipped += step.skipped ? 1 : 0;
    CHECK(step.skipped_steps == skipped);
    CHECK(nlohmann::json::parse(to_json(step)).at("skipped_steps") == skipped);
  }
  CHECK(skipped > 5);
  CHECK(skipped < 25);
  CHECK(summary.steps == 30);
  CHECK(summary.skipped_steps == skipped);
}

TEST_CASE("a NaN loss is an error that names rank and iteration, in every dtype and with any loss scale") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    CAPTURE(name(dtype));
    for (const bool overlap : {false, true}) {
      TrainConfig config = small(dtype, 5);
      config.data_parallel.overlap_grad_reduce = config.data_parallel.overlap_param_gather = overlap;
      CHECK(contains(error_with_nan(config, {1}), "rank 1, step 1: the loss is NaN"));
      CHECK(contains(error_with_nan(config, {0, 1}), ", step 1: the loss is NaN"));
    }
  }
  TrainConfig constant = small(DType::fp16, 5);
  constant.loss_scale.constant = 64;
  CHECK(contains(error_with_nan(constant, {0}), "rank 0, step 1: the loss is NaN"));
}

TEST_CASE("only a dynamic loss scale makes an overflow a skip: with a constant one it is an error") {
  TrainConfig config = small(DType::fp16, 5);
  config.loss_scale.constant = 1e30;
  CHECK(
      contains(message_of<Error>([&] { steps_of(config); }), "NaN or infinite values before its reduction"));
  config.check_for_nan_in_loss = config.data_parallel.check_for_nan_in_grad = false;
  CHECK(contains(message_of<Error>([&] { steps_of(config); }), "all 5 steps of this run were skipped"));
}

TEST_CASE("a run that only skips ends with an error, at the latest when it should have been trained") {
  TrainConfig config = searching(60);
  config.loss_scale.initial_scale = 0x1p40;
  config.loss_scale.min_scale = 0x1p37;
  std::string message = message_of<Error>([&] { steps_of(config); });
  CHECK(contains(message, "step 13: the last 10 steps were all skipped at the smallest loss scale, 2^37"));
  config.train_iters = 5;
  message = message_of<Error>([&] { steps_of(config); });
  CHECK(contains(message, "all 5 steps of this run were skipped, the last at loss scale 2^37"));
  CHECK(contains(message, "--initial-loss-scale"));
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    TrainConfig unchecked = small(dtype, 60);
    unchecked.check_for_nan_in_loss = unchecked.data_parallel.check_for_nan_in_grad = false;
    CHECK(contains(error_with_nan(unchecked, {0, 1}), "step 10: the last 10 steps were all skipped"));
    unchecked.train_iters = 1;
    CHECK(contains(error_with_nan(unchecked, {0, 1}), "the only step of this run was skipped"));
  }
}

TEST_CASE("skips in a row are counted anew after a step that is none") {
  const TrainConfig config = resolve(small(DType::fp32, 5));
  SkippedSteps steps(config);
  for (int i = 0; i < 100; ++i) CHECK_NOTHROW(steps.add(i, i % SkippedSteps::most_in_a_row != 0, 1));
  CHECK(steps.count() == 90);
  CHECK(steps.untrained().empty());
}
