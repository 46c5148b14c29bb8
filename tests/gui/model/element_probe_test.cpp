// The followed element's values against the tensors they come from, and against the same arithmetic by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include "core/base/error.h"
#include "core/data/safetensors.h"
#include "tests/gui/live_support.h"
#include "tests/support/temporary_folder.h"
#include "viz/model/element_probe.h"

using namespace zero1;
using namespace zero1::viz;
using namespace zero1::viz::test;

namespace {

float rounded(float value, DType dtype) {
  return visit_dtype(dtype, [&](auto type) { return static_cast<float>(decltype(type)(value)); });
}

/// All samples of one stage, step and rank, in order.
std::vector<double> values(std::span<const ElementSample> samples, Stage stage, int step, int rank) {
  std::vector<double> result;
  for (const ElementSample& s : samples) {
    if (s.stage == stage && s.step == step && s.rank == rank) result.push_back(s.value);
  }
  return result;
}

/// The only value of a stage.
float one(std::span<const ElementSample> samples, Stage stage, int step, int rank) {
  const std::vector<double> found = values(samples, stage, step, rank);
  CAPTURE(name(stage));
  CAPTURE(step);
  CAPTURE(rank);
  REQUIRE(found.size() == 1);
  return static_cast<float>(found[0]);
}

struct Followed {
  TrainConfig config;
  std::shared_ptr<const Layout> layout;
  ElementPlace place;
  std::vector<ElementSample> samples;
  std::vector<StepMetrics> metrics;
  std::vector<ParamMultipliers> multipliers;
};

Followed follow(const TrainConfig& config, const ElementRef& element) {
  LiveRunOptions options;
  options.follow = element;
  LiveRun live(config, options);
  run_out(live);
  Followed result;
  result.config = config;
  result.layout = live.layout();
  result.place = *live.element().place();
  result.samples.assign(live.element().samples().begin(), live.element().samples().end());
  result.metrics.assign(live.metrics().begin(), live.metrics().end());
  result.multipliers = resolve_param_groups(live.layout()->specs, config.optimizer.param_groups);
  return result;
}

bool owns(const Followed& f, int rank) {
  return !f.config.data_parallel.use_distributed_optimizer || rank == f.place.owner;
}

/// Gradients: what accumulates is what is scaled, summed in rank order, and arrives.
void check_gradients(const Followed& f, int step, int contributions_per_microbatch) {
  const DataParallelConfig& d = f.config.data_parallel;
  const int dp = f.config.dp;
  const bool prescaled = dp > 1 && !d.average_in_collective;
  float sum = 0;
  for (int rank = 0; rank < dp; ++rank) {
    CHECK(one(f.samples, Stage::zeroed, step, rank) == 0);
    const std::vector<double> steps_up = values(f.samples, Stage::accumulated, step, rank);
    REQUIRE(static_cast<std::int64_t>(steps_up.size()) ==
            f.config.num_microbatches() * contributions_per_microbatch);
    float sent = one(f.samples, Stage::complete, step, rank);
    CHECK(sent == static_cast<float>(steps_up.back()));
    // The embedding adds nothing to the row of a token that a microbatch lacks.
    for (std::size_t i = 1; i < steps_up.size(); ++i)
      CHECK((contributions_per_microbatch > 1 || steps_up[i] != steps_up[i - 1]));
    if (prescaled) {
      const float scaled = one(f.samples, Stage::scaled, step, rank);
      CHECK(scaled == rounded(sent * (1.0F / static_cast<float>(dp)), f.place.grad_dtype));
      sent = scaled;
    } else {
      CHECK(values(f.samples, Stage::scaled, step, rank).empty());
    }
    sum = rank == 0 ? sent : sum + sent;
    if (!owns(f, rank)) CHECK(one(f.samples, Stage::reduced, step, rank) == sent);  // stale
  }
  const float average = d.average_in_collective ? sum / static_cast<float>(dp) : sum;
  for (int rank = 0; rank < dp; ++rank) {
    if (!owns(f, rank)) {
      CHECK(values(f.samples, Stage::main_grad, step, rank).empty());
      continue;
    }
    const float reduced = one(f.samples, Stage::reduced, step, rank);
    CHECK(reduced == rounded(average, f.place.grad_dtype));
    CHECK(one(f.samples, Stage::main_grad, step, rank) == reduced);
  }
}

/// AdamW in fp64 from the values before it.
void check_update(const Followed& f, int step) {
  const OptimizerConfig& o = f.config.optimizer;
  const StepMetrics& metrics = f.metrics[static_cast<std::size_t>(step - 1)];
  const ParamMultipliers& mult = f.multipliers[static_cast<std::size_t>(f.place.element.param)];
  for (int rank = 0; rank < f.config.dp; ++rank) {
    if (!owns(f, rank)) {
      CHECK(values(f.samples, Stage::main_param, step, rank).empty());
      continue;
    }
    const auto get = [&](Stage stage) { return one(f.samples, stage, step, rank); };
    const double coefficient =
        o.clip_grad > 0 ? std::min(1.0, o.clip_grad / (metrics.grad_norm + 1e-6)) : 1.0;
    const double scale = metrics.loss_scale ? coefficient / *metrics.loss_scale : coefficient;
    CHECK(get(Stage::clipped) == get(Stage::main_grad) * static_cast<float>(scale));
    const double g = get(Stage::clipped);
    const double m = o.adam_beta1 * get(Stage::exp_avg_before) + (1 - o.adam_beta1) * g;
    const double v = o.adam_beta2 * get(Stage::exp_avg_sq_before) + (1 - o.adam_beta2) * g * g;
    CHECK(get(Stage::exp_avg) == doctest::Approx(m).epsilon(1e-5));
    CHECK(get(Stage::exp_avg_sq) == doctest::Approx(v).epsilon(1e-5));
    const double lr = metrics.lr * mult.lr_mult;
    const double before = get(Stage::main_param_before);
    const double after = before * (1 - lr * o.weight_decay * mult.weight_decay_mult) -
                         lr * (m / (1 - std::pow(o.adam_beta1, step))) /
                             (std::sqrt(v / (1 - std::pow(o.adam_beta2, step))) + o.adam_eps);
    CHECK(get(Stage::main_param) - before == doctest::Approx(after - before).epsilon(1e-3));
    CHECK(after != before);
    CHECK(get(Stage::model_param) == rounded(get(Stage::main_param), f.place.param_dtype));
    if (step == 1) {
      CHECK(get(Stage::exp_avg_before) == 0);
      CHECK(get(Stage::exp_avg_sq_before) == 0);
      const float initial = make_model(f.config)->initial_values(
          f.place.element.param, f.config.seed)[static_cast<std::size_t>(f.place.element.index)];
      CHECK(static_cast<float>(before) == rounded(initial, f.place.param_dtype));
    } else {
      CHECK(before == one(f.samples, Stage::main_param, step - 1, rank));
      CHECK(get(Stage::exp_avg_before) == one(f.samples, Stage::exp_avg, step - 1, rank));
    }
  }
}

/// The gather of a step's update, which may run in the next iteration: every rank has the owner's bits.
void check_gather(const Followed& f, int step) {
  for (int rank = 0; rank < f.config.dp; ++rank) {
    if (!f.config.data_parallel.use_distributed_optimizer) {
      CHECK(values(f.samples, Stage::gathered, step, rank).empty());
      continue;
    }
    const float updated = one(f.samples, Stage::model_param, step, f.place.owner);
    CHECK(one(f.samples, Stage::gathered, step, rank) == updated);
    const float before = one(f.samples, Stage::before_gather, step, rank);
    if (owns(f, rank)) {
      CHECK(before == updated);
    } else if (step > 1) {
      CHECK(before == one(f.samples, Stage::gathered, step - 1, rank));
    }
  }
  for (const ElementSample& s : f.samples) {
    const bool may_be_stale = s.stage == Stage::reduced || s.stage == Stage::before_gather;
    const bool expected = may_be_stale && f.config.data_parallel.use_distributed_optimizer &&
                          !f.config.data_parallel.force_all_reduce && s.rank != f.place.owner;
    CHECK(s.stale == expected);
  }
}

void check_all(const TrainConfig& config, const ElementRef& element, int contributions_per_microbatch) {
  const Followed f = follow(config, element);
  CAPTURE(element_name(*f.layout, element));
  REQUIRE(f.metrics.size() == static_cast<std::size_t>(config.train_iters));
  for (int step = 1; step <= config.train_iters; ++step) {
    check_gradients(f, step, contributions_per_microbatch);
    check_update(f, step);
    check_gather(f, step);
  }
}

constexpr int wte = 0;
constexpr int ln_2_bias = 9;
constexpr int c_fc_weight = 10;

void check_elements(const TrainConfig& config) {
  const Layout layout = run_shape(config).layout;
  REQUIRE(layout.specs[ln_2_bias].name == "h.0.ln_2.bias");
  REQUIRE(layout.specs[c_fc_weight].name == "h.0.mlp.c_fc.weight");
  check_all(config, {ln_2_bias, 5}, 1);
  check_all(config, {c_fc_weight, 0}, 1);
  check_all(config, {c_fc_weight, 96 * 24 - 1}, 1);
  check_all(config, {wte, '1' * 24 + 7}, 2);  // tied: the head's contribution, then the embedding's
}

}  // namespace

TEST_CASE("each number of a followed element is the tensor's, in fp32 with overlap") {
  check_elements(small_run(3));
}

TEST_CASE("... without overlap, with all buckets in one launch") {
  TrainConfig config = small_run(2);
  config.data_parallel.overlap_grad_reduce = false;
  config.data_parallel.overlap_param_gather = false;
  check_elements(config);
}

TEST_CASE("... in bf16 with fp32 gradients, and with bf16 gradients") {
  TrainConfig config = small_run(2);
  config.param_dtype = DType::bf16;
  check_elements(config);
  config.data_parallel.grad_reduce_in_fp32 = false;
  check_all(config, {ln_2_bias, 5}, 1);
}

TEST_CASE("... in fp16 under a loss scale") {
  TrainConfig config = small_run(2);
  config.param_dtype = DType::fp16;
  config.loss_scale.initial_scale = 4096;
  check_all(resolve(config), {ln_2_bias, 5}, 1);
}

TEST_CASE("... in plain data parallelism, averaging in the collective, keeping whole gradients, and alone") {
  TrainConfig config = small_run(2);
  SUBCASE("plain") {
    config.data_parallel.use_distributed_optimizer = false;
    config.data_parallel.overlap_param_gather = false;
    check_elements(config);
  }
  SUBCASE("average") {
    config.data_parallel.average_in_collective = true;
    check_all(config, {ln_2_bias, 5}, 1);
  }
  SUBCASE("alone") {
    check_all(small_run(1), {ln_2_bias, 5}, 1);
  }
}

TEST_CASE(
    "the averaged gradient is that of one rank with the whole batch, and the last value is the saved one") {
  TrainConfig alone = small_run(1);
  alone.global_batch_size = 4;
  alone.train_iters = 1;
  TrainConfig both = small_run(2);
  both.train_iters = 2;
  const zero1::test::TemporaryFolder folder;
  both.save_weights = folder / "weights.safetensors";
  const ElementRef element{c_fc_weight, 77};
  const Followed one_rank = follow(resolve(alone), element);
  const Followed two_ranks = follow(resolve(both), element);
  const double whole = one(one_rank.samples, Stage::complete, 1, 0);
  CHECK(whole != 0);
  CHECK(one(two_ranks.samples, Stage::reduced, 1, two_ranks.place.owner) ==
        doctest::Approx(whole).epsilon(1e-4));

  const SafetensorsReader saved(both.save_weights);
  const SafetensorsEntry* entry = saved.find("h.0.mlp.c_fc.weight");
  REQUIRE(entry != nullptr);
  CHECK(saved.read_fp32(*entry, {77, 78})[0] == one(two_ranks.samples, Stage::gathered, 2, 0));
}

TEST_CASE("an element's place agrees with the range map on every rank") {
  const Layout layout = run_shape(small_run(3)).layout;
  for (int param = 0; param < static_cast<int>(layout.specs.size()); ++param) {
    const std::int64_t numel = layout.specs[static_cast<std::size_t>(param)].numel();
    for (std::int64_t index = 0; index < numel; index += 5) {
      const ElementPlace place = place_of(layout, {param, index});
      CHECK(element_at(layout, place.buffer, place.in_world) == ElementRef{param, index});
      int owners = 0;
      const RangeMap map = build_range_map(layout, place.buffer);
      for (int rank = 0; rank < map.rank_count(); ++rank) {
        for (const ParamShard& shard : map.rank(rank)) {
          if (shard.param != param || !shard.param_range.contains(index)) continue;
          ++owners;
          CHECK(rank == place.owner);
          const std::int64_t offset = index - shard.param_range.start;
          CHECK(place.in_world == shard.gbuf_world.start + offset);
          CHECK(place.in_bucket == shard.gbuf_world_in_bucket.start + offset);
          CHECK(place.in_shard == shard.gbuf_local.start + offset);
        }
      }
      CHECK(owners == 1);
    }
  }
  CHECK(element_name(layout, {c_fc_weight, 25}) == "h.0.mlp.c_fc.weight[1, 1]");
  CHECK_THROWS_AS(place_of(layout, {0, -1}), InputError);
  CHECK_THROWS_AS(place_of(layout, {0, 1 << 30}), InputError);
  CHECK_THROWS_AS(place_of(layout, {999, 0}), InputError);
}

TEST_CASE("the table has a row per stage and contribution, up to the moment that is looked at") {
  std::vector<ElementSample> samples;
  const auto add = [&](std::int64_t at_ns, int rank, Stage stage, int microbatch, double value) {
    ElementSample s;
    s.at_ns = at_ns;
    s.rank = static_cast<std::int16_t>(rank);
    s.stage = stage;
    s.microbatch = static_cast<std::int16_t>(microbatch);
    s.step = 4;
    s.value = value;
    samples.push_back(s);
  };
  add(10, 0, Stage::zeroed, -1, 0);
  add(12, 1, Stage::zeroed, -1, 0);
  add(20, 0, Stage::accumulated, 0, 1);
  add(25, 0, Stage::accumulated, 0, 3);
  add(26, 1, Stage::accumulated, 0, 2);
  add(40, 0, Stage::accumulated, 1, 5);
  const ElementTable all = element_table(samples, 2, 100);
  CHECK(all.step == 4);
  REQUIRE(all.rows.size() == 4);
  CHECK(all.rows[1].cells[0]->value == 1);
  CHECK(all.rows[1].cells[1]->value == 2);
  CHECK(all.rows[2].cells[0]->value == 3);
  CHECK(!all.rows[2].cells[1]);
  CHECK(all.rows[3].microbatch == 1);
  CHECK(all.rows[3].cells[0]->newest);
  CHECK(!all.rows[2].cells[0]->newest);
  CHECK(all.rows[1].cells[1]->newest);
  const ElementTable early = element_table(samples, 2, 20);
  REQUIRE(early.rows.size() == 2);
  CHECK(early.rows[1].cells[0]->newest);
  CHECK(element_table(samples, 2, 5).rows.empty());
}
