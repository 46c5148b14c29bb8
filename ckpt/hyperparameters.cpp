#include "ckpt/hyperparameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ckpt/config_rules.h"
#include "ckpt/state_rules.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace zero1::ckpt {
namespace {

/// Finds differences, and takes the checkpoint's value where it is to win.
class Comparison {
 public:
  Comparison(Hyperparameters choice) : choice_(choice) {}

  template <class Value>
  void compare(const char* flag, Value& of_run, const Value& of_checkpoint) {
    if (of_run == of_checkpoint) return;
    add(fmt::format("{}: {} here, {} in the checkpoint", flag, of_run, of_checkpoint));
    if (choice_ == Hyperparameters::of_checkpoint) of_run = of_checkpoint;
  }
  void add(std::string difference) { differences_.push_back(std::move(difference)); }

  const std::vector<std::string>& differences() const { return differences_; }

 private:
  Hyperparameters choice_;
  std::vector<std::string> differences_;
};

LrDecayStyle style_of(const RunState& state) {
  const auto style = parse_lr_decay_style(state.lr_decay_style);
  if (!style)
    throw InputError(fmt::format("the checkpoint's decay style '{}' is unknown", state.lr_decay_style));
  return *style;
}

void compare_schedule(Comparison& comparison, LearningRateConfig& lr, const RunState& state) {
  const LrDecayStyle stored = style_of(state);
  // A constant rate neither decays nor reaches a minimum: then these two mean nothing.
  const bool decays = lr.style != LrDecayStyle::constant || stored != LrDecayStyle::constant;
  comparison.compare("--lr", lr.lr, state.lr);
  comparison.compare("--lr-warmup-iters", lr.warmup_iters, state.warmup_iters);
  std::string style(name(lr.style));
  comparison.compare("--lr-decay-style", style, state.lr_decay_style);
  lr.style = *parse_lr_decay_style(style);
  if (!decays) return;
  comparison.compare("--min-lr", lr.min_lr, state.min_lr);
  comparison.compare("--lr-decay-iters", lr.decay_iters, state.decay_iters);
  if (lr.style != LrDecayStyle::wsd && stored != LrDecayStyle::wsd) return;
  std::string wsd_style(name(lr.wsd_style));
  comparison.compare("--lr-wsd-decay-style", wsd_style, state.wsd_decay_style);
  const auto taken = parse_wsd_decay_style(wsd_style);
  if (!taken) throw InputError(fmt::format("the checkpoint's WSD decay style '{}' is unknown", wsd_style));
  lr.wsd_style = *taken;
  comparison.compare("--lr-wsd-decay-iters", lr.wsd_decay_iters, state.wsd_decay_iters);
}

/// A pattern that only this name matches.
std::string literal_pattern(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

void compare_multipliers(Comparison& comparison, OptimizerConfig& optimizer,
                         const std::vector<ParamSpec>& specs,
                         const std::vector<std::optional<ParamMultipliers>>& stored, bool take) {
  const std::vector<ParamMultipliers> of_run = resolve_param_groups(specs, optimizer.param_groups);
  std::vector<ParamGroupRule> taken;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (!stored[p]) continue;
    const ParamMultipliers& other = *stored[p];
    if (other.lr_mult == of_run[p].lr_mult && other.weight_decay_mult == of_run[p].weight_decay_mult)
      continue;
    comparison.add(fmt::format(
        "--param-group of {}: lr_mult={},wd_mult={} here, lr_mult={},wd_mult={} in the checkpoint",
        printable(specs[p].name), of_run[p].lr_mult, of_run[p].weight_decay_mult, other.lr_mult,
        other.weight_decay_mult));
    taken.push_back({literal_pattern(specs[p].name), other.lr_mult, other.weight_decay_mult});
  }
  if (take) optimizer.param_groups.insert(optimizer.param_groups.begin(), taken.begin(), taken.end());
}

/// Refuses what would not continue the checkpoint's run: all of it at once.
[[noreturn]] void refuse(const std::vector<std::string>& differences, const ConfigChanges& changes) {
  std::string text;
  if (!differences.empty()) {
    text = fmt::format(
        "the flags say otherwise than the checkpoint:\n  {}\nGo on with the checkpoint's values: "
        "--use-checkpoint-opt_param-scheduler; with the flags': --override-opt_param-scheduler",
        fmt::join(differences, "\n  "));
  }
  if (!changes.refused.empty()) {
    text += fmt::format(
        "{}this would not go on with the run that the checkpoint holds:\n  {}\nGive the "
        "checkpoint's values; where a change is meant: --allow-change {}",
        text.empty() ? "" : "\n", fmt::join(changes.refused, "\n  "), fmt::join(changes.refused_names, ","));
  }
  throw InputError(text);
}

}  // namespace

std::int64_t schedule_position(const RunState& state, std::int64_t global_batch_size) {
  const auto config = nlohmann::json::parse(state.config_json);
  const auto stored = config.find("global_batch_size");
  const bool told = stored != config.end() && stored->is_number_unsigned() && *stored > 0;
  const double iterations =
      state.scheduled_sequences
          ? static_cast<double>(*state.scheduled_sequences) /
                (told ? stored->get<double>() : static_cast<double>(global_batch_size))
          : static_cast<double>(config.empty() && state.optimizer_steps == 0 ? state.step
                                                                             : state.optimizer_steps);
  if (state.scheduled_sequences && (!told || *stored == global_batch_size)) return *state.scheduled_sequences;
  const double sequences = iterations * static_cast<double>(global_batch_size);
  constexpr double most = 0x1p62;
  if (!(sequences < most)) throw InputError("the position of the schedule is beyond any run");
  return std::llround(sequences);
}

Agreement agree(const TrainConfig& config, const RunState& state, const std::vector<ParamSpec>& specs,
                const std::vector<std::optional<ParamMultipliers>>& stored, Hyperparameters choice,
                const std::vector<std::string>& allowed_changes) {
  if (!is_of_run(state)) return agree_on_weights(config, state, allowed_changes);
  Agreement result{config, {}};
  Comparison comparison(choice);
  OptimizerConfig& optimizer = result.config.optimizer;
  compare_schedule(comparison, result.config.lr, state);
  comparison.compare("--weight-decay", optimizer.weight_decay, state.weight_decay);
  comparison.compare("--adam-beta1", optimizer.adam_beta1, state.adam_beta1);
  comparison.compare("--adam-beta2", optimizer.adam_beta2, state.adam_beta2);
  comparison.compare("--adam-eps", optimizer.adam_eps, state.adam_eps);
  const bool take = choice == Hyperparameters::of_checkpoint;
  compare_multipliers(comparison, optimizer, specs, stored, take);
  ConfigChanges changes = compare_configs(config, state, allowed_changes, false);
  const bool undecided = choice == Hyperparameters::must_agree && !comparison.differences().empty();
  if (undecided || !changes.refused.empty())
    refuse(undecided ? comparison.differences() : std::vector<std::string>{}, changes);
  for (const std::string& difference : comparison.differences()) {
    result.notes.push_back(
        fmt::format("{}: the {} value is taken", difference, take ? "checkpoint's" : "flag's"));
  }
  if (config.param_dtype == DType::fp16 && !config.loss_scale.constant)
    result.notes.push_back(fmt::format("the loss scale goes on at {}", format_loss_scale(state.loss_scale)));
  for (std::string& note : changes.notes) result.notes.push_back(std::move(note));
  result.config = resolve(std::move(result.config));
  return result;
}

Agreement agree_on_weights(const TrainConfig& config, const RunState& state,
                           const std::vector<std::string>& allowed_changes) {
  ConfigChanges changes = compare_configs(config, state, allowed_changes, true);
  if (!changes.refused.empty()) refuse({}, changes);
  return {config, std::move(changes.notes)};
}

}  // namespace zero1::ckpt
