#include "ckpt/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace zero1::ckpt {

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

std::string to_json(const RunState& s) {
  using nlohmann::ordered_json;
  ordered_json groups = ordered_json::array();
  for (const ParamGroup& group : s.param_groups) {
    groups.push_back({{"lr_mult", group.lr_mult},
                      {"weight_decay_mult", group.weight_decay_mult},
                      {"params", group.params}});
  }
  const ordered_json json{
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
        {"decay_iters", s.decay_iters}}},
      {"loss_scaler",
       {{"scale", s.loss_scale},
        {"growth_tracker", s.growth_tracker},
        {"hysteresis_tracker", s.hysteresis_tracker}}},
      {"rng", {{"seed", s.seed}}},
      {"data", {{"consumed_sequences", s.consumed_sequences}, {"shuffle", s.shuffle}}},
      {"config", nlohmann::ordered_json::parse(s.config_json)},
  };
  return json.dump(1);
}

RunState parse_run_state(const std::string& text, const std::string& source) {
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    RunState s;
    json.at("step").get_to(s.step);
    const auto& optimizer = json.at("optimizer");
    optimizer.at("step").get_to(s.optimizer_steps);
    optimizer.at("beta1").get_to(s.adam_beta1);
    optimizer.at("beta2").get_to(s.adam_beta2);
    optimizer.at("eps").get_to(s.adam_eps);
    optimizer.at("weight_decay").get_to(s.weight_decay);
    optimizer.at("clip_grad").get_to(s.clip_grad);
    for (const auto& group : optimizer.at("param_groups")) {
      s.param_groups.push_back({group.at("params").get<std::vector<std::string>>(),
                                group.at("lr_mult").get<double>(),
                                group.at("weight_decay_mult").get<double>()});
    }
    const auto& schedule = json.at("schedule");
    schedule.at("style").get_to(s.lr_decay_style);
    schedule.at("lr").get_to(s.lr);
    schedule.at("min_lr").get_to(s.min_lr);
    schedule.at("warmup_iters").get_to(s.warmup_iters);
    schedule.at("decay_iters").get_to(s.decay_iters);
    const auto& scaler = json.at("loss_scaler");
    scaler.at("scale").get_to(s.loss_scale);
    scaler.at("growth_tracker").get_to(s.growth_tracker);
    scaler.at("hysteresis_tracker").get_to(s.hysteresis_tracker);
    json.at("rng").at("seed").get_to(s.seed);
    json.at("data").at("consumed_sequences").get_to(s.consumed_sequences);
    json.at("data").at("shuffle").get_to(s.shuffle);
    s.config_json = json.at("config").dump();
    if (s.step < 0 || s.optimizer_steps < 0 || s.consumed_sequences < 0) {
      throw InputError(fmt::format("{}: /state: a count is negative", source));
    }
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
