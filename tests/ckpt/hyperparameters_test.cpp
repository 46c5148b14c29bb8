// What a run that goes on takes from the checkpoint, and what it tells.
#include <doctest/doctest.h>

#include "ckpt/hyperparameters.h"
#include "core/base/error.h"
#include "tests/support/command.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

using namespace zero1;
using ckpt::Hyperparameters;

namespace {

const std::vector<ParamSpec> specs{{"w", {2, 2}, DType::fp32, false, false},
                                   {"a[0]*", {3}, DType::fp32, false, false}};

TrainConfig small_config() {
  TrainConfig config;
  config.train_iters = 20;
  config.lr.lr = 0.5;
  config.threads_per_rank = 1;
  return resolve(config);
}

/// As a run with this configuration would have stored it.
ckpt::RunState state_of(const TrainConfig& config) {
  ckpt::RunState s;
  s.lr = config.lr.lr;
  s.min_lr = config.lr.min_lr;
  s.warmup_iters = config.lr.warmup_iters;
  s.decay_iters = config.lr.decay_iters;
  s.lr_decay_style = name(config.lr.style);
  s.weight_decay = config.optimizer.weight_decay;
  s.adam_beta1 = config.optimizer.adam_beta1;
  s.adam_beta2 = config.optimizer.adam_beta2;
  s.adam_eps = config.optimizer.adam_eps;
  s.clip_grad = config.optimizer.clip_grad;
  s.seed = config.seed;
  s.shuffle = config.shuffle;
  s.wsd_decay_style = name(config.lr.wsd_style);
  s.wsd_decay_iters = config.lr.wsd_decay_iters;
  s.config_json = to_json(config);
  return s;
}

const std::vector<std::optional<ParamMultipliers>> own{ParamMultipliers{1, 1}, ParamMultipliers{1, 0}};

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("a run with the same flags agrees, and a constant rate has no decay to disagree about") {
  TrainConfig config = small_config();
  const ckpt::RunState state = state_of(config);
  CHECK(ckpt::agree(config, state, specs, own, Hyperparameters::must_agree).notes.empty());
  config.train_iters = 40;
  config.lr.decay_iters = 40;
  config.lr.min_lr = 0.1;
  CHECK(ckpt::agree(config, state, specs, own, Hyperparameters::must_agree).notes.empty());
  config.lr.style = LrDecayStyle::cosine;
  const std::string message = test::message_of<InputError>(
      [&] { ckpt::agree(config, state, specs, own, Hyperparameters::must_agree); });
  CHECK(message.find("--lr-decay-style: cosine here, constant in the checkpoint") != std::string::npos);
  CHECK(message.find("--lr-decay-iters: 40 here, 20 in the checkpoint") != std::string::npos);
  CHECK(message.find("--min-lr: 0.1 here, 0 in the checkpoint") != std::string::npos);
}

TEST_CASE("every difference is named; one side wins when it is told to") {
  const TrainConfig before = small_config();
  const ckpt::RunState state = state_of(before);
  TrainConfig config = before;
  config.lr.lr = 0.25;
  config.lr.warmup_iters = 3;
  config.optimizer.weight_decay = 0.5;
  config.optimizer.adam_beta1 = 0.8;
  config.optimizer.adam_beta2 = 0.9;
  config.optimizer.adam_eps = 1e-6;
  config.optimizer.param_groups = {{"w", 2, 1}};
  const std::string message = test::message_of<InputError>(
      [&] { ckpt::agree(config, state, specs, own, Hyperparameters::must_agree); });
  for (const char* part :
       {"--lr: 0.25 here, 0.5 in the checkpoint", "--lr-warmup-iters: 3 here", "--weight-decay: 0.5 here",
        "--adam-beta1: 0.8 here", "--adam-beta2: 0.9 here", "--adam-eps: 1e-06 here",
        "--param-group of w: lr_mult=2,wd_mult=1 here, lr_mult=1,wd_mult=1 in the checkpoint",
        "--use-checkpoint-opt_param-scheduler", "--override-opt_param-scheduler"}) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  }

  const auto of_flags = ckpt::agree(config, state, specs, own, Hyperparameters::of_flags);
  CHECK(of_flags.config.lr.lr == 0.25);
  CHECK(of_flags.config.optimizer.adam_beta1 == 0.8);
  CHECK(joined(of_flags.notes).find("--lr: 0.25 here, 0.5 in the checkpoint: the flag's value is taken") !=
        std::string::npos);
  CHECK(resolve_param_groups(specs, of_flags.config.optimizer.param_groups)[0].lr_mult == 2);

  const auto stored = ckpt::agree(config, state, specs, own, Hyperparameters::of_checkpoint);
  CHECK(stored.config.lr.lr == 0.5);
  CHECK(stored.config.lr.warmup_iters == 0);
  CHECK(stored.config.optimizer.weight_decay == before.optimizer.weight_decay);
  CHECK(stored.config.optimizer.adam_beta1 == before.optimizer.adam_beta1);
  CHECK(stored.config.optimizer.adam_beta2 == before.optimizer.adam_beta2);
  CHECK(stored.config.optimizer.adam_eps == before.optimizer.adam_eps);
  CHECK(stored.notes.size() == 7);
  CHECK(resolve_param_groups(specs, stored.config.optimizer.param_groups)[0].lr_mult == 1);
}

TEST_CASE("stored multipliers apply to exactly the parameter that has them, whatever is in its name") {
  const TrainConfig config = small_config();
  const std::vector<std::optional<ParamMultipliers>> stored{std::nullopt, ParamMultipliers{0.5, 0.25}};
  const auto taken = ckpt::agree(config, state_of(config), specs, stored, Hyperparameters::of_checkpoint);
  const auto multipliers = resolve_param_groups(specs, taken.config.optimizer.param_groups);
  CHECK(multipliers[0].lr_mult == 1);
  CHECK(multipliers[1].lr_mult == 0.5);
  CHECK(multipliers[1].weight_decay_mult == 0.25);
}

TEST_CASE("clipping is the flags', and told; an imported checkpoint agrees with everything") {
  TrainConfig config = small_config();
  ckpt::RunState state = state_of(config);
  state.consumed_sequences = 10;
  config.optimizer.clip_grad = 0.5;
  const std::string notes = joined(ckpt::agree(config, state, specs, own, Hyperparameters::must_agree).notes);
  CHECK(notes == "--clip-grad: 0.5 from now on, 1.0 before\n");
  config.data = "other.txt";
  state.config_json = R"({"model": "gpt"})";  // does not say what it read
  CHECK(!test::contains(joined(ckpt::agree(config, state, specs, own, Hyperparameters::must_agree).notes),
                        "data: "));
  CHECK(ckpt::agree(config, ckpt::RunState(), specs, own, Hyperparameters::must_agree).notes.empty());
}

TEST_CASE("WSD's last iterations are part of the schedule") {
  TrainConfig before = small_config();
  before.lr.style = LrDecayStyle::wsd;
  before.lr.wsd_decay_iters = 5;
  before = resolve(before);
  ckpt::RunState state = state_of(before);
  TrainConfig config = before;
  config.lr.wsd_decay_iters = 6;
  config.lr.wsd_style = WsdDecayStyle::minus_sqrt;
  const std::string message = test::message_of<InputError>(
      [&] { ckpt::agree(config, state, specs, own, Hyperparameters::must_agree); });
  CHECK(test::contains(message, "--lr-wsd-decay-style: minus_sqrt here, exponential in the checkpoint"));
  CHECK(test::contains(message, "--lr-wsd-decay-iters: 6 here, 5 in the checkpoint"));
  const auto taken = ckpt::agree(config, state, specs, own, Hyperparameters::of_checkpoint).config;
  CHECK(taken.lr.wsd_style == WsdDecayStyle::exponential);
  CHECK(taken.lr.wsd_decay_iters == 5);
  state.wsd_decay_style = "steep";
  CHECK(test::contains(test::message_of<InputError>(
                           [&] { ckpt::agree(config, state, specs, own, Hyperparameters::of_checkpoint); }),
                       "'steep' is unknown"));
}

TEST_CASE("the schedule goes on after as many iterations, whatever a batch holds now") {
  TrainConfig config = small_config();
  config.global_batch_size = 4;
  ckpt::RunState state = state_of(config);
  state.step = 9;
  state.optimizer_steps = 7;
  state.scheduled_sequences = 28;
  CHECK(ckpt::schedule_position(state, 4) == 28);
  CHECK(ckpt::schedule_position(state, 3) == 21);
  state.scheduled_sequences.reset();  // an older checkpoint: as far as AdamW
  CHECK(ckpt::schedule_position(state, 4) == 28);
  CHECK(ckpt::schedule_position(state, 3) == 21);
  state.config_json = "{}";  // an import
  CHECK(ckpt::schedule_position(state, 3) == 21);
  state.optimizer_steps = 0;
  CHECK(ckpt::schedule_position(state, 3) == 27);
  state.step = INT64_MAX;
  CHECK_THROWS_AS(ckpt::schedule_position(state, 1 << 30), InputError);
}

TEST_CASE("values of a checkpoint that cannot be are refused under their flags' names") {
  const TrainConfig config = small_config();
  ckpt::RunState state = state_of(config);
  state.adam_beta1 = 2;
  CHECK(test::message_of<InputError>([&] {
          ckpt::agree(config, state, specs, own, Hyperparameters::of_checkpoint);
        }).find("--adam-beta1") != std::string::npos);
  state = state_of(config);
  state.lr_decay_style = "staircase";
  CHECK(test::message_of<InputError>([&] {
          ckpt::agree(config, state, specs, own, Hyperparameters::of_checkpoint);
        }).find("staircase") != std::string::npos);
}
