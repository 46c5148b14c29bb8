#include "apps/zero1/train_flag_pairs.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace zero1::app {

namespace {

/// Whether a flag has been given, and not to say that it is off: a file of flags may have `async-save =
/// false`.
bool given(const CLI::App& cmd, std::string_view flag) {
  const CLI::Option* option = cmd.get_option(std::string(flag));
  if (option->count() == 0) return false;
  return option->get_items_expected_max() > 0 || option->as<bool>() != flag.starts_with("--no-");
}

/// A flag that changes nothing while `idle` holds.
struct Rule {
  const char* flag;
  bool (*idle)(const TrainOptions&);
  const char* why;  ///< follows the flag in the message
};

bool no_load(const TrainOptions& o) {
  return o.load.source.empty();
}
bool no_stored_weights(const TrainOptions& o) {
  return no_load(o) && o.config.init.empty();
}
bool no_save(const TrainOptions& o) {
  return o.save.folder.empty();
}
bool no_fp16(const TrainOptions& o) {
  return !o.fp16;
}
bool constant_scale(const TrainOptions& o) {
  return o.config.loss_scale.constant.has_value();
}
bool constant_rate(const TrainOptions& o) {
  return o.lr_decay_style == "constant" && !o.use_checkpoint_schedule;
}
bool no_attention(const TrainOptions& o) {
  return o.config.model == "mlp";
}

constexpr const char* needs_load = "needs --load DIR";
constexpr const char* needs_stored_weights = "needs --load DIR or --init FILE";
constexpr const char* needs_save = "needs --save DIR";
constexpr const char* needs_fp16 = "needs --fp16: other types are trained without a loss scale";
constexpr const char* constant_scale_stays =
    "adjusts the dynamic loss scale; with --loss-scale it is constant. Give one of the two";
constexpr const char* new_run =
    "is for a resumed run; --load-weights-only begins a new one, by the flags. Give one of the two";
constexpr const char* mlp_has_none =
    "means nothing with --model mlp, which has neither attention nor positions";

const Rule rules[] = {
    {"--ckpt-step", no_load, needs_load},
    {"--load-weights-only", no_load, needs_load},
    {"--override-opt_param-scheduler", no_load, needs_load},
    {"--use-checkpoint-opt_param-scheduler", no_load, needs_load},
    {"--no-strict", [](const TrainOptions& o) { return no_load(o) && !o.load.strict; }, needs_load},
    {"--init", [](const TrainOptions& o) { return !no_load(o) && o.load.strict; },
     "would be replaced by the parameters of --load. Give one of the two, or --no-strict: then it gives what "
     "the checkpoint lacks"},
    {"--use-checkpoint-opt_param-scheduler", [](const TrainOptions& o) { return o.load.weights_only; },
     new_run},
    {"--override-opt_param-scheduler", [](const TrainOptions& o) { return o.load.weights_only; }, new_run},
    {"--allow-change", no_load, needs_load},
    {"--rename", no_stored_weights, needs_stored_weights},
    {"--exclude", no_stored_weights, needs_stored_weights},
    {"--transpose", no_stored_weights, needs_stored_weights},
    {"--no-transpose", no_stored_weights, needs_stored_weights},
    {"--save-interval", no_save, needs_save},
    {"--keep-last", no_save, needs_save},
    {"--async-save", no_save, needs_save},
    {"--save-best", no_save, needs_save},
    {"--initial-loss-scale", no_fp16, needs_fp16},
    {"--min-loss-scale", no_fp16, needs_fp16},
    {"--loss-scale-window", no_fp16, needs_fp16},
    {"--hysteresis", no_fp16, needs_fp16},
    {"--initial-loss-scale", constant_scale, constant_scale_stays},
    {"--min-loss-scale", constant_scale, constant_scale_stays},
    {"--loss-scale-window", constant_scale, constant_scale_stays},
    {"--hysteresis", constant_scale, constant_scale_stays},
    {"--min-lr", constant_rate, "needs another --lr-decay-style: a constant rate never falls to it"},
    {"--lr-decay-iters",
     [](const TrainOptions& o) { return constant_rate(o) && o.config.lr.warmup_iters == 0; },
     "needs another --lr-decay-style: a constant rate does not decay"},
    {"--num-attention-heads", no_attention, mlp_has_none},
    {"--max-position-embeddings", no_attention, mlp_has_none},
    {"--eval-iters", [](const TrainOptions& o) { return o.config.valid_data.empty(); },
     "needs --valid-data FILE and --eval-interval N or --eval: nothing is evaluated without"},
    {"--grad-reduce-in-bf16", [](const TrainOptions& o) { return !o.bf16 && !o.fp16; },
     "needs --bf16 or --fp16: parameters in fp32 have gradients in fp32"},
    {"--tf32", [](const TrainOptions& o) { return o.bf16 || o.fp16; },
     "concerns fp32 matrix products, of which a run with --bf16 or --fp16 has none"},
    {"--threads-per-rank", [](const TrainOptions& o) { return o.config.device == "cuda"; },
     "needs --device cpu: GPUs compute without threads of the host"},
};

void note_idle(const CLI::App& cmd, TrainOptions& o) {
  const TrainConfig& c = o.config;
  const auto note = [&](bool idle, const char* flag, const char* why) {
    if (idle && given(cmd, flag)) o.notes.push_back(fmt::format("{} {}", flag, why));
  };
  constexpr const char* one_rank = "changes nothing at --dp 1: nothing is communicated";
  const bool alone = c.dp == 1;
  note(alone && c.link.gbit_per_s > 0, "--link-gbps", one_rank);
  note(alone && c.link.latency_us > 0, "--link-latency-us", one_rank);
  note(alone && c.data_parallel.overlap_param_gather, "--overlap-param-gather", one_rank);
  note(alone, "--force-all-reduce", one_rank);
  note(alone, "--ddp-average-in-collective", one_rank);
  const bool goes_on = !o.load.source.empty() && !o.load.weights_only;
  note(goes_on, "--initial-loss-scale",
       "changes nothing with --load: the loss scale goes on from the checkpoint's");
  note(c.eval_interval > c.train_iters, "--eval-interval",
       "is larger than --train-iters: nothing is evaluated");
  const bool has_weights = !c.init.empty() || (!o.load.source.empty() && o.load.strict);
  note(has_weights && !c.data.empty() && !c.shuffle, "--seed",
       "changes nothing: weights and data are given, and nothing is shuffled");
}

}  // namespace

void check_flag_pairs(const CLI::App& cmd, TrainOptions& options) {
  for (const Rule& rule : rules) {
    if (given(cmd, rule.flag) && rule.idle(options))
      throw InputError(fmt::format("{} {}", rule.flag, rule.why));
  }
  note_idle(cmd, options);
}

}  // namespace zero1::app
