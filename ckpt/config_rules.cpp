#include "ckpt/config_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace zero1::ckpt {
namespace {

using Json = nlohmann::ordered_json;

constexpr ConfigRule rules[] = {
    {"model", "--model", Change::function},
    {"num_layers", "--num-layers", Change::told},    // names and shapes decide, as --no-strict has it
    {"hidden_size", "--hidden-size", Change::told},  // shapes decide
    {"vocab_size", "--vocab-size", Change::told},    // shapes decide
    {"make_vocab_size_divisible_by", "--make-vocab-size-divisible-by", Change::told},  // shapes decide
    {"num_attention_heads", "--num-attention-heads", Change::function},
    {"max_position_embeddings", "--max-position-embeddings", Change::function},
    {"params_dtype", "--bf16/--fp16", Change::function},
    {"seq_length", "--seq-length", Change::data},
    {"data", "--data", Change::data},
    {"token_dtype", "--token-dtype", Change::data},
    {"shuffle", "--shuffle", Change::data},
    {"seed", "--seed", Change::data},
    {"global_batch_size", "--global-batch-size", Change::data},
    {"rampup_batch_size", "--rampup-batch-size", Change::data},
    {"lr", "--lr", Change::schedule},
    {"min_lr", "--min-lr", Change::schedule},
    {"lr_warmup_iters", "--lr-warmup-iters", Change::schedule},
    {"lr_decay_iters", "--lr-decay-iters", Change::schedule},
    {"lr_decay_style", "--lr-decay-style", Change::schedule},
    {"lr_wsd_decay_style", "--lr-wsd-decay-style", Change::schedule},
    {"lr_wsd_decay_iters", "--lr-wsd-decay-iters", Change::schedule},
    {"weight_decay", "--weight-decay", Change::schedule},
    {"adam_beta1", "--adam-beta1", Change::schedule},
    {"adam_beta2", "--adam-beta2", Change::schedule},
    {"adam_eps", "--adam-eps", Change::schedule},
    {"param_group", "--param-group", Change::schedule},
    {"clip_grad", "--clip-grad", Change::told},
    {"micro_batch_size", "--micro-batch-size", Change::told},  // another order of sums
    {"grad_reduce_in_fp32", "--grad-reduce-in-bf16", Change::told},
    {"average_in_collective", "--ddp-average-in-collective", Change::told},
    {"check_for_nan_in_loss", "--check-for-nan-in-loss-and-grad", Change::told},
    {"check_for_nan_in_grad", "--check-for-nan-in-loss-and-grad", Change::free},  // told with the loss
    {"check_for_large_grads", "--check-for-large-grads", Change::told},
    {"loss_scale", "--loss-scale", Change::told},
    {"min_loss_scale", "--min-loss-scale", Change::told},
    {"loss_scale_window", "--loss-scale-window", Change::told},
    {"hysteresis", "--hysteresis", Change::told},
    {"initial_loss_scale", "--initial-loss-scale", Change::free},  // the scale itself goes on
    {"valid_data", "--valid-data", Change::told},
    {"eval_iters", "--eval-iters", Change::told},
    {"eval_interval", "--eval-interval", Change::free},
    {"eval", "--eval", Change::free},
    {"device", "--device", Change::told},
    {"tf32", "--tf32", Change::told},
    {"dp", "--dp", Change::free},  // told with the folder; the same within rounding
    {"train_iters", "--train-iters", Change::free},
    {"use_distributed_optimizer", "--use-distributed-optimizer", Change::free},
    {"overlap_grad_reduce", "--overlap-grad-reduce", Change::free},
    {"overlap_param_gather", "--overlap-param-gather", Change::free},
    {"ddp_bucket_size", "--ddp-bucket-size", Change::free},
    {"ddp_num_buckets", "--ddp-num-buckets", Change::free},
    {"ddp_pad_buckets_for_high_nccl_busbw", "--ddp-pad-buckets-for-high-nccl-busbw", Change::free},
    {"force_all_reduce", "--force-all-reduce", Change::free},
    {"comm", "--comm", Change::free},
    {"threads_per_rank", "--threads-per-rank", Change::free},
    {"link_gbps", "--link-gbps", Change::free},
    {"link_latency_us", "--link-latency-us", Change::free},
};

/// What the checkpoint tells of its run, with what its state tells beside the configuration.
Json stored_config(const RunState& state) {
  Json stored = Json::parse(state.config_json);
  if (!stored.is_object()) return Json::object();
  if (stored.empty()) return stored;
  stored["clip_grad"] = state.clip_grad;
  stored["seed"] = state.seed;
  stored["shuffle"] = state.shuffle;
  return stored;
}

std::string shown(std::string_view field, const Json& value) {
  constexpr std::size_t longest = 80;
  if (field == "data" && value == "") return "the generated corpus";
  if (value.is_null()) return "none";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_string()) return value == "" ? "none" : printable(value.get<std::string>(), longest);
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), longest);
}

/// Whether a difference of this field means anything between these two runs.
bool matters(std::string_view field, const Json& here, const Json& there, const RunState& state) {
  const auto is = [](const Json& config, const char* key, const Json& value) {
    const auto found = config.find(key);
    return found != config.end() && *found == value;
  };
  if (field == "num_attention_heads" || field == "max_position_embeddings") return is(here, "model", "gpt");
  if (field == "seed") {
    return is(here, "shuffle", true) || is(there, "shuffle", true) || is(here, "data", "") ||
           is(there, "data", "");
  }
  if (field == "rampup_batch_size") {  // behind both ramps every batch is the full one
    const auto ramps = [&](const Json& ramp) {
      return ramp.is_array() && ramp.size() == 3 && ramp[2].is_number() &&
             state.consumed_sequences <= ramp[2];
    };
    return ramps(here.at("rampup_batch_size")) || ramps(there.at("rampup_batch_size"));
  }
  if (field == "loss_scale" || field == "min_loss_scale" || field == "loss_scale_window" ||
      field == "hysteresis")
    return is(here, "params_dtype", "float16") && is(there, "params_dtype", "float16");
  if (field == "eval_iters" || field == "valid_data")
    return !is(here, "eval_interval", 0) && !is(there, "eval_interval", 0);
  return true;
}

/// What a change of this field does to a run.
std::string meaning(const ConfigRule& rule, const std::string& before) {
  if (rule.field == "model" || rule.field == "params_dtype") return "another function";
  if (rule.change == Change::function) return "another function of the same parameters";
  if (rule.field == "global_batch_size") {
    return fmt::format(
        "another number of sequences per step; --global-batch-size {} keeps it, and any number "
        "that is given is meant",
        before);
  }
  if (rule.field == "rampup_batch_size") return "other numbers of sequences per step";
  if (rule.field == "data") return "other data, from the position where the old would have gone on";
  if (rule.field == "seq_length") return "the data would be read from another position";
  return "the data would be another or come in another order: some twice, some never";
}

/// What is to be known of a change of the data that is meant.
std::string consequence(const ConfigRule& rule, const RunState& state) {
  const std::string position = format_count(state.consumed_sequences);
  if (rule.field == "data") return fmt::format("; they are read from sequence {} on", position);
  if (rule.field == "seq_length")
    return fmt::format("; read on from sequence {} of the new length", position);
  if (rule.field == "seed" || rule.field == "shuffle") return "; some sequences come twice, some never";
  return "";
}

}  // namespace

std::span<const ConfigRule> config_rules() {
  return rules;
}

std::string change_name(const ConfigRule& rule) {
  std::string name(rule.field);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void check_change_names(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const ConfigRule& rule : rules) {
    if (rule.refuses()) known.push_back(change_name(rule));
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw InputError(fmt::format("--allow-change '{}': expected one of {}{}", printable(name),
                                 fmt::join(known, ", "), did_you_mean(name, known)));
  }
}

ConfigChanges compare_configs(const TrainConfig& config, const RunState& state,
                              const std::vector<std::string>& allowed, bool weights_only) {
  ConfigChanges changes;
  const Json here = Json::parse(to_json(config));
  const Json there = stored_config(state);
  for (const ConfigRule& rule : rules) {
    const auto before = there.find(rule.field);
    if (before == there.end() || *before == here.at(rule.field)) continue;
    if (rule.change == Change::schedule || rule.change == Change::free) continue;
    if (!matters(rule.field, here, there, state)) continue;
    // A new run from these parameters chooses its own type, as it does everything but what they mean.
    const bool new_choice = weights_only && rule.field == "params_dtype";
    if (weights_only && rule.change != Change::function) continue;
    const std::string now = shown(rule.field, here.at(rule.field));
    const std::string name = change_name(rule);
    const bool meant = new_choice || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
    if (rule.refuses() && !meant) {
      const std::string stored = shown(rule.field, *before);
      changes.refused.push_back(fmt::format("{}: {} here, {} in the checkpoint: {}", rule.flag, now, stored,
                                            meaning(rule, stored)));
      changes.refused_names.push_back(name);
      continue;
    }
    changes.notes.push_back(fmt::format("{}: {} from now on, {} before{}", rule.flag, now,
                                        shown(rule.field, *before), consequence(rule, state)));
  }
  return changes;
}

}  // namespace zero1::ckpt
