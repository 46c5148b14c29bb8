#include "ckpt/state_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/strict_json.h"
#include "core/base/units.h"
#include "core/data/narrowing.h"
#include "core/data/safetensors_header.h"

namespace zero1::ckpt {
namespace {

/// "'a', 'b', 'c' and 4 more".
std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += (i > 0 ? ", " : "") + in_quotes(names[i]);
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

constexpr std::array model_field_names{"model", "num_attention_heads", "seq_length", "vocab_size"};

constexpr const char* reset_advice =
    "--reset-optimizer starts AdamW afresh: no moments, step count 0; iteration, schedule and data position "
    "stay as recorded";

/// The parameters with both moments, with one of them, and with none.
struct Sorted {
  std::vector<std::string> both, none;
  std::vector<StoredMoments> one;
};

Sorted sort_by_moments(const std::vector<StoredMoments>& params) {
  Sorted sorted;
  for (const StoredMoments& each : params) {
    if (each.exp_avg != each.exp_avg_sq)
      sorted.one.push_back(each);
    else
      (each.exp_avg ? sorted.both : sorted.none).push_back(each.param);
  }
  return sorted;
}

void refuse_incomplete(const Sorted& sorted, const std::string& source) {
  if (!sorted.one.empty()) {
    const StoredMoments& first = sorted.one.front();
    throw InputError(fmt::format(
        "{}: {} one moment and not the other: {} has no {}. AdamW needs both: with a second moment of 0 its "
        "updates would be larger by orders of magnitude. {}",
        source,
        sorted.one.size() == 1 ? "a parameter has" : counted(sorted.one.size(), "parameter") + " have",
        in_quotes(first.param), name(first.exp_avg ? State::exp_avg_sq : State::exp_avg), reset_advice));
  }
  if (!sorted.both.empty() && !sorted.none.empty()) {
    throw InputError(fmt::format(
        "{}: has moments of {}, but none of {}: AdamW's step count is one for all parameters. {}", source,
        counted(sorted.both.size(), "parameter"), first_names(sorted.none), reset_advice));
  }
}

OptimizerState without_moments(const std::optional<RunState>& recorded, const OptimizerFlags& flags,
                               const std::string& source) {
  if (flags.step) {
    throw InputError(
        fmt::format("--step {}: {} holds no moments (NAME.exp_avg, NAME.exp_avg_sq) that a step count could "
                    "belong to; without --step AdamW starts afresh",
                    *flags.step, source));
  }
  OptimizerState result{recorded.value_or(RunState{}), false, {}};
  if (result.state.optimizer_steps > 0) {
    throw InputError(fmt::format(
        "{}: records that AdamW has made {}, but holds no moments (NAME.exp_avg, NAME.exp_avg_sq): the next "
        "updates would be several times too large. Import what was exported with them (without "
        "--model-only). "
        "{}",
        source, counted(result.state.optimizer_steps, "step"), reset_advice));
  }
  result.notes.emplace_back("AdamW: no moments, starts afresh");
  return result;
}

OptimizerState with_moments(const std::optional<RunState>& recorded, const OptimizerFlags& flags,
                            const std::string& source) {
  OptimizerState result{recorded.value_or(RunState{}), true, {}};
  RunState& state = result.state;
  if (flags.step) {
    if (state.optimizer_steps > 0 && state.optimizer_steps != *flags.step) {
      throw InputError(fmt::format("--step {}: {} records that AdamW has made {}; leave --step out",
                                   *flags.step, source, counted(state.optimizer_steps, "step")));
    }
    if (state.step > 0 && *flags.step > state.step) {
      throw InputError(fmt::format("--step {}: {} records only {}; AdamW cannot have made more steps",
                                   *flags.step, source, counted(state.step, "iteration")));
    }
    state.optimizer_steps = *flags.step;
    if (state.step == 0) state.step = *flags.step;
  } else if (!recorded) {
    throw InputError(fmt::format(
        "{}: holds moments, but does not record how many steps of AdamW they come from (metadata {}): with a "
        "count of 0 its bias correction would be wrong. Give the count with --step N; or "
        "--reset-optimizer starts AdamW afresh, without moments",
        source, state_key));
  }
  result.notes.push_back(
      fmt::format("AdamW: moments of {}, iteration {}", counted(state.optimizer_steps, "step"), state.step));
  if (!recorded)
    result.notes.emplace_back("the position in the training data is not known: it is the beginning");
  return result;
}

/// Older runs have recorded no position of the schedule: it is told by AdamW's steps, which are about to go.
void keep_schedule(RunState& state) {
  if (state.scheduled_sequences) return;
  const auto config = nlohmann::json::parse(state.config_json);
  const auto batch = config.find("global_batch_size");
  std::int64_t sequences = 0;
  if (batch == config.end() || !batch->is_number_unsigned()) return;
  if (!__builtin_mul_overflow(batch->get<std::uint64_t>(), state.optimizer_steps, &sequences))
    state.scheduled_sequences = sequences;
}

}  // namespace

std::string model_fields(const std::string& config_json, const std::string& source) {
  constexpr int max_depth = 64;
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  try {
    const nlohmann::ordered_json config = parse_strict_ordered_json(config_json, max_depth);
    if (!config.is_object()) throw InputError("not a JSON object");
    for (const char* key : model_field_names) {
      if (const auto found = config.find(key); found != config.end()) fields[key] = *found;
    }
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: the configuration of the model: {}", source, error.what()));
  }
  return fields.dump();
}

bool is_of_run(const RunState& state) {
  const auto config = nlohmann::json::parse(state.config_json);
  std::size_t of_model = 0;
  for (const char* key : model_field_names) of_model += config.contains(key) ? 1 : 0;
  return !config.is_object() || config.size() > of_model;
}

OptimizerState decide_optimizer_state(const std::optional<RunState>& recorded,
                                      const std::vector<StoredMoments>& params, const OptimizerFlags& flags,
                                      const std::string& source) {
  const Sorted sorted = sort_by_moments(params);
  if (flags.reset) {
    if (flags.step) throw InputError("--step and --reset-optimizer exclude each other");
    OptimizerState result{recorded.value_or(RunState{}), false, {}};
    result.notes.push_back(
        fmt::format("AdamW starts afresh: {} of moments left out, step count 0; iteration {}",
                    counted(sorted.both.size() * 2 + sorted.one.size(), "tensor"), result.state.step));
    keep_schedule(result.state);
    result.state.optimizer_steps = 0;
    return result;
  }
  refuse_incomplete(sorted, source);
  return sorted.both.empty() ? without_moments(recorded, flags, source)
                             : with_moments(recorded, flags, source);
}

void refuse_orphaned_states(const std::vector<std::string>& others, const std::vector<std::string>& recorded,
                            const std::string& source) {
  const std::set<std::string_view> known(recorded.begin(), recorded.end());
  const std::set<std::string_view> present(others.begin(), others.end());
  const auto base = [](std::string_view tensor, std::string_view suffix) {
    return tensor.size() > suffix.size() && tensor.ends_with(suffix)
               ? std::optional(tensor.substr(0, tensor.size() - suffix.size()))
               : std::nullopt;
  };
  for (const std::string& tensor : others) {
    if (known.contains(tensor)) continue;
    for (const State state : {State::exp_avg, State::exp_avg_sq}) {
      const auto of = base(tensor, fmt::format(".{}", name(state)));
      if (!of || present.contains(*of)) continue;
      throw InputError(
          fmt::format("{}: {} is by its name AdamW's {} of {}, which the file does not hold. Give it the "
                      "name that belongs "
                      "to its parameter with --rename, or leave it out with --exclude",
                      source, in_quotes(tensor), name(state), in_quotes(*of)));
    }
    for (const char* suffix : {".step", ".max_exp_avg_sq", ".momentum_buffer"}) {
      const auto of = base(tensor, suffix);
      if (!of || !present.contains(*of)) continue;
      throw InputError(fmt::format(
          "{}: {} is by its name an optimizer's state of {}, and none that is imported: those are exp_avg "
          "and "
          "exp_avg_sq, and --step N says how many steps of AdamW they come from. Leave it out with --exclude",
          source, in_quotes(tensor), in_quotes(*of)));
    }
  }
}

ValueKinds kinds_of(const float* values, std::int64_t count) {
  unsigned non_finite = 0;
  unsigned negative = 0;
  unsigned zero = 0;
  unsigned non_zero = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    non_finite |= static_cast<unsigned>(!is_finite(values[i]));
    negative |= static_cast<unsigned>(values[i] < 0);
    zero |= static_cast<unsigned>(values[i] == 0);
    non_zero |= static_cast<unsigned>(values[i] != 0);
  }
  return {non_finite != 0, negative != 0, zero != 0, non_zero != 0};
}

StateCheck::StateCheck(const RunState& state, std::string source, std::string advice)
    : optimizer_steps_(state.optimizer_steps),
      zero_is_impossible_(second_moment_decays_slower(state)),
      source_(std::move(source)),
      advice_(std::move(advice)) {}

void StateCheck::fail(const ParamSpec& spec, State state, std::int64_t element,
                      const std::string& what) const {
  throw InputError(fmt::format("{}: {}: {}[{}] {}{}", source_, in_quotes(spec.name), name(state), element,
                               what, state == State::param ? "" : ". " + advice_));
}

void StateCheck::check(const ParamSpec& spec, State state, Range range, const float* values,
                       const std::function<void(float*)>& read_exp_avg) {
  const ValueKinds kinds = kinds_of(values, range.size());
  const bool no_steps = state != State::param && optimizer_steps_ == 0;
  const bool no_negatives = state == State::exp_avg_sq;
  const bool suspicious =
      kinds.non_finite || (no_steps && kinds.non_zero) || (no_negatives && kinds.negative);
  for (std::int64_t i = 0; suspicious && i < range.size(); ++i) {
    const float value = values[i];
    const std::int64_t at = range.start + i;
    if (!is_finite(value)) fail(spec, state, at, fmt::format("is {:g}, not a finite number", value));
    if (no_negatives && value < 0)
      fail(spec, state, at, fmt::format("is {:g}, but a second moment is an average of squares", value));
    if (no_steps && value != 0)
      fail(spec, state, at, fmt::format("is {:g}, but AdamW's step count is 0", value));
  }
  if (state == State::exp_avg_sq) check_second_moment(spec, range, values, kinds, read_exp_avg);
  if (state != State::param) return;
  if (const auto beyond = first_overflow(values, range.size(), spec.dtype))
    fail(spec, state, range.start + *beyond,
         describe_overflow(values[*beyond], spec.dtype) + "; choose a wider dtype for the run's parameters");
}

void StateCheck::check_second_moment(const ParamSpec& spec, Range range, const float* values,
                                     const ValueKinds& kinds,
                                     const std::function<void(float*)>& read_exp_avg) {
  if (kinds.zero || kinds.non_zero) has_elements_ = true;
  if (kinds.non_zero) has_second_moment_ = true;
  if (!kinds.zero || !zero_is_impossible_) return;
  std::vector<float> exp_avg(static_cast<std::size_t>(range.size()));
  read_exp_avg(exp_avg.data());
  for (std::int64_t i = 0; i < range.size(); ++i) {
    const float first = exp_avg[static_cast<std::size_t>(i)];
    if (values[i] != 0 || !needs_second_moment(first)) continue;
    fail(spec, State::exp_avg_sq, range.start + i,
         fmt::format("is 0 where exp_avg is {:g}, which AdamW never leaves", first));
  }
}

void StateCheck::finish() const {
  if (optimizer_steps_ == 0 || has_second_moment_ || !has_elements_) return;
  throw InputError(
      fmt::format("{}: AdamW has made {}, but every second moment is 0: its moments are missing. {}", source_,
                  counted(optimizer_steps_, "step"), advice_));
}

CheckedSource::CheckedSource(const ElementSource& source, const std::vector<ParamSpec>& specs, bool moments,
                             StateCheck& check)
    : source_(source), specs_(specs), moments_(moments), check_(check) {}

void CheckedSource::read(int param, State state, Range param_range, float* out) const {
  if (!moments_ && state != State::param) {
    std::fill(out, out + param_range.size(), 0.0F);
    return;
  }
  source_.read(param, state, param_range, out);
  check_.check(specs_[static_cast<std::size_t>(param)], state, param_range, out,
               [&](float* exp_avg) { source_.read(param, State::exp_avg, param_range, exp_avg); });
}

}  // namespace zero1::ckpt
