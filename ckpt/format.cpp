#include "ckpt/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/strict_json.h"

namespace zero1::ckpt {
namespace {

using nlohmann::ordered_json;

ordered_json parse_text(const std::string& text, const std::string& source) {
  constexpr int max_depth = 64;
  try {
    return parse_strict_ordered_json(text, max_depth);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: /state: {}", source, error.what()));
  }
}

/// One object of /state. Throws InputError naming the field; the library would convert any number to any
/// other.
class Fields {
 public:
  Fields(const ordered_json& object, std::string where, const std::string& source)
      : object_(object), where_(std::move(where)), source_(source) {
    if (!object.is_object()) fail("", "an object");
  }

  bool has(const char* key) const { return object_.contains(key); }
  Fields object(const char* key) const { return {at(key), where_ + key + ".", source_}; }
  const ordered_json& list(const char* key) const {
    if (!at(key).is_array()) fail(key, "a list");
    return at(key);
  }
  Fields element(const char* key, std::size_t index) const {
    return {list(key)[index], fmt::format("{}{}[{}].", where_, key, index), source_};
  }

  template <class Integer>
  void integer(const char* key, Integer& value) const {
    const ordered_json& found = at(key);
    const bool fits = found.is_number_unsigned()
                          ? std::in_range<Integer>(found.get<std::uint64_t>())
                          : found.is_number_integer() && std::in_range<Integer>(found.get<std::int64_t>());
    if (!fits) fail(key, "a whole number that fits");
    value = found.get<Integer>();
  }
  void count(const char* key, std::int64_t& value) const {
    integer(key, value);
    if (value < 0) fail(key, "0 or more");
  }
  void number(const char* key, double& value) const {
    if (!at(key).is_number()) fail(key, "a number");
    value = at(key).get<double>();
  }
  void positive(const char* key, double& value) const {
    number(key, value);
    if (!(value > 0)) fail(key, "a number above 0");
  }
  void boolean(const char* key, bool& value) const {
    if (!at(key).is_boolean()) fail(key, "true or false");
    value = at(key).get<bool>();
  }
  void string(const char* key, std::string& value) const {
    if (!at(key).is_string()) fail(key, "a string");
    value = at(key).get<std::string>();
  }
  void strings(const char* key, std::vector<std::string>& values) const {
    for (const ordered_json& each : list(key)) {
      if (!each.is_string()) fail(key, "a list of strings");
      values.push_back(each.get<std::string>());
    }
  }
  const ordered_json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "the field, which is missing");
    return *found;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const char* expected) const {
    throw InputError(fmt::format("{}: /state: {}{}: expected {}", source_, where_, key, expected));
  }

  const ordered_json& object_;
  std::string where_;
  const std::string& source_;
};

}  // namespace

std::string_view name(State state) {
  switch (state) {
    case State::param: return "param";
    case State::exp_avg: return "exp_avg";
    case State::exp_avg_sq: return "exp_avg_sq";
  }
  return "?";
}

std::string rank_file_name(int rank) {
  return fmt::format("rank_{:05}.h5", rank);
}

std::string step_folder_name(std::int64_t step) {
  return fmt::format("step_{:08}", step);
}

std::vector<std::string> group_path(std::string_view param) {
  std::vector<std::string> path;
  while (true) {
    const std::size_t slash = param.find('/');
    const std::string_view part = param.substr(0, slash);
    const bool state =
        std::any_of(all_states.begin(), all_states.end(), [&](State each) { return part == name(each); });
    const bool odd = part.empty() || part == "." || part == ".." || part.front() == '%';
    path.push_back((odd || (state && !path.empty()) ? "%" : "") + std::string(part));
    if (slash == std::string_view::npos) return path;
    param.remove_prefix(slash + 1);
  }
}

std::string to_json(const RunState& s) {
  ordered_json groups = ordered_json::array();
  for (const ParamGroup& group : s.param_groups) {
    groups.push_back({{"lr_mult", group.lr_mult},
                      {"weight_decay_mult", group.weight_decay_mult},
                      {"params", group.params}});
  }
  ordered_json json{
      {"step", s.step},
      {"optimizer",
       {{"name", "adamw"},
        {"step", s.optimizer_steps},
        {"beta1", s.adam_beta1},
        {"beta2", s.adam_beta2},
        {"eps", s.adam_eps},
        {"weight_decay", s.weight_decay},
        {"clip_grad", s.clip_grad},
        {"param_groups", groups}}},
      {"schedule",
       {{"style", s.lr_decay_style},
        {"lr", s.lr},
        {"min_lr", s.min_lr},
        {"warmup_iters", s.warmup_iters},
        {"decay_iters", s.decay_iters},
        {"wsd_decay_style", s.wsd_decay_style},
        {"wsd_decay_iters", s.wsd_decay_iters}}},
      {"loss_scaler",
       {{"scale", s.loss_scale},
        {"growth_tracker", s.growth_tracker},
        {"hysteresis_tracker", s.hysteresis_tracker}}},
      {"rng", {{"seed", s.seed}}},
      {"data", {{"consumed_sequences", s.consumed_sequences}, {"shuffle", s.shuffle}}},
      {"config", ordered_json::parse(s.config_json)},
  };
  if (s.scheduled_sequences) json["schedule"]["scheduled_sequences"] = *s.scheduled_sequences;
  return json.dump(1);
}

RunState parse_run_state(const std::string& text, const std::string& source) {
  try {
    const ordered_json json = parse_text(text, source);
    const Fields root(json, "", source);
    RunState s;
    root.count("step", s.step);
    const Fields optimizer = root.object("optimizer");
    optimizer.count("step", s.optimizer_steps);
    optimizer.number("beta1", s.adam_beta1);
    optimizer.number("beta2", s.adam_beta2);
    optimizer.number("eps", s.adam_eps);
    optimizer.number("weight_decay", s.weight_decay);
    optimizer.number("clip_grad", s.clip_grad);
    for (std::size_t g = 0; g < optimizer.list("param_groups").size(); ++g) {
      const Fields group = optimizer.element("param_groups", g);
      ParamGroup& added = s.param_groups.emplace_back();
      group.strings("params", added.params);
      group.number("lr_mult", added.lr_mult);
      group.number("weight_decay_mult", added.weight_decay_mult);
    }
    const Fields schedule = root.object("schedule");
    schedule.string("style", s.lr_decay_style);
    schedule.number("lr", s.lr);
    schedule.number("min_lr", s.min_lr);
    schedule.count("warmup_iters", s.warmup_iters);
    schedule.count("decay_iters", s.decay_iters);
    // Later than the first checkpoints of this version:
    if (schedule.has("wsd_decay_style")) schedule.string("wsd_decay_style", s.wsd_decay_style);
    if (schedule.has("wsd_decay_iters")) schedule.count("wsd_decay_iters", s.wsd_decay_iters);
    if (schedule.has("scheduled_sequences"))
      schedule.count("scheduled_sequences", s.scheduled_sequences.emplace());
    const Fields scaler = root.object("loss_scaler");
    scaler.positive("scale", s.loss_scale);
    scaler.integer("growth_tracker", s.growth_tracker);
    scaler.integer("hysteresis_tracker", s.hysteresis_tracker);
    root.object("rng").integer("seed", s.seed);
    const Fields data = root.object("data");
    data.count("consumed_sequences", s.consumed_sequences);
    data.boolean("shuffle", s.shuffle);
    s.config_json = root.at("config").dump();
    return s;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: /state: {}", source, error.what()));
  }
}

int rank_count(const Layout& layout) {
  int ranks = layout.options.dp_size;
  for (const BufferLayout& buffer : layout.buffers) ranks = std::max(ranks, buffer.dp_size);
  return ranks;
}

std::vector<SliceRecord> slices_of_rank(const Layout& layout, int rank) {
  std::vector<SliceRecord> slices;
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    const BufferLayout& buffer = layout.buffers[b];
    if (rank >= buffer.dp_size) continue;
    for (std::size_t k = 0; k < buffer.buckets.size(); ++k) {
      for (const State state : all_states) {
        slices.push_back({rank, static_cast<std::int32_t>(b), static_cast<std::int32_t>(k),
                          static_cast<std::int32_t>(state), 0, buffer.shard_elems(static_cast<int>(k)), 0});
      }
    }
  }
  return slices;
}

std::int64_t slice_count(const Layout& layout) {
  std::int64_t count = 0;
  for (const BufferLayout& buffer : layout.buffers) {
    count += static_cast<std::int64_t>(buffer.buckets.size()) * buffer.dp_size * state_count;
  }
  return count;
}

std::int64_t slice_index(const Layout& layout, int rank, int buffer, int bucket, State state) {
  std::int64_t index = static_cast<std::int64_t>(state);
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    const BufferLayout& each = layout.buffers[b];
    const auto slices = static_cast<std::int64_t>(each.buckets.size()) * state_count;
    index += std::min(rank, each.dp_size) * slices;  // of the ranks before
    if (static_cast<int>(b) < buffer && rank < each.dp_size) index += slices;
  }
  return index + std::int64_t{bucket} * state_count;
}

}  // namespace zero1::ckpt
