#include "ckpt/hyperparameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

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

/// The --data of the run that saved, if the checkpoint tells.
std::optional<std::string> data_of(const RunState& state) {
  const auto config = nlohmann::json::parse(state.config_json);
  const auto data = config.find("data");
  if (data == config.end() || !data->is_string()) return {};
  return data->get<std::string>();
}

std::string data_name(const std::string& data) {
  return data.empty() ? "the generated corpus" : data;
}

/// What comes from the flags whatever the checkpoint says.
std::vector<std::string> notes_on_the_rest(const TrainConfig& config, const RunState& state) {
  std::vector<std::string> notes;
  const auto note = [&](const char* flag, const auto& here, const auto& there) {
    if (here != there) notes.push_back(fmt::format("{}: {} from now on, {} before", flag, here, there));
  };
  const std::string data_before = data_of(state).value_or(config.data);
  note("--data", data_name(config.data), data_name(data_before));
  if (config.data != data_before && state.consumed_sequences > 0) {
    notes.push_back(fmt::format("the new data are read from sequence {} on, where the old would have gone on",
                                format_count(state.consumed_sequences)));
  }
  note("--clip-grad", config.optimizer.clip_grad, state.clip_grad);
  note("--seed", config.seed, state.seed);
  note("--shuffle", config.shuffle, state.shuffle);
  if (state.consumed_sequences > 0 &&
      (config.shuffle != state.shuffle || (config.shuffle && config.seed != state.seed)))
    notes.push_back("the order of the data is another: some sequences come twice, some never");
  return notes;
}

}  // namespace

Agreement agree(const TrainConfig& config, const RunState& state, const std::vector<ParamSpec>& specs,
                const std::vector<std::optional<ParamMultipliers>>& stored, Hyperparameters choice) {
  Agreement result{config, {}};
  if (state.config_json == "{}") return result;
  Comparison comparison(choice);
  OptimizerConfig& optimizer = result.config.optimizer;
  compare_schedule(comparison, result.config.lr, state);
  comparison.compare("--weight-decay", optimizer.weight_decay, state.weight_decay);
  comparison.compare("--adam-beta1", optimizer.adam_beta1, state.adam_beta1);
  comparison.compare("--adam-beta2", optimizer.adam_beta2, state.adam_beta2);
  comparison.compare("--adam-eps", optimizer.adam_eps, state.adam_eps);
  const bool take = choice == Hyperparameters::of_checkpoint;
  compare_multipliers(comparison, optimizer, specs, stored, take);
  if (choice == Hyperparameters::must_agree && !comparison.differences().empty()) {
    throw InputError(
        fmt::format("the flags say otherwise than the checkpoint:\n  {}\nGo on with the checkpoint's values: "
                    "--use-checkpoint-opt_param-scheduler; with the flags': --override-opt_param-scheduler",
                    fmt::join(comparison.differences(), "\n  ")));
  }
  for (const std::string& difference : comparison.differences()) {
    result.notes.push_back(
        fmt::format("{}: the {} value is taken", difference, take ? "checkpoint's" : "flag's"));
  }
  for (std::string& note : notes_on_the_rest(config, state)) result.notes.push_back(std::move(note));
  result.config = resolve(std::move(result.config));
  return result;
}

}  // namespace zero1::ckpt
