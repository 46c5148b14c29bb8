// The configuration as JSON. A field that is added to one of the structures does not compile until it is
// named in the binding here; write it below too, and say in ckpt/config_rules.cpp what a resumed run may
// change of it.
#include <nlohmann/json.hpp>

#include "core/train/config.h"

namespace zero1 {

namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const std::optional<BatchRampup>& rampup) {
  if (!rampup) return {};
  const auto& [start, increment, sequences] = *rampup;
  return {start, increment, sequences};
}

void add(Json& json, const LearningRateConfig& config) {
  const auto& [lr, min_lr, warmup_iters, decay_iters, style, wsd_style, wsd_decay_iters] = config;
  json["lr"] = lr;
  json["min_lr"] = min_lr;
  json["lr_warmup_iters"] = warmup_iters;
  json["lr_decay_iters"] = decay_iters;
  json["lr_decay_style"] = name(style);
  json["lr_wsd_decay_style"] = name(wsd_style);
  json["lr_wsd_decay_iters"] = wsd_decay_iters;
}

Json json_of(const std::vector<ParamGroupRule>& groups) {
  Json json = Json::array();
  for (const auto& [pattern, lr_mult, weight_decay_mult] : groups)
    json.push_back({{"pattern", pattern}, {"lr_mult", lr_mult}, {"wd_mult", weight_decay_mult}});
  return json;
}

void add(Json& json, const OptimizerConfig& config) {
  const auto& [weight_decay, beta1, beta2, eps, clip_grad, param_groups] = config;
  json["weight_decay"] = weight_decay;
  json["adam_beta1"] = beta1;
  json["adam_beta2"] = beta2;
  json["adam_eps"] = eps;
  json["clip_grad"] = clip_grad;
  json["param_group"] = json_of(param_groups);
}

void add(Json& json, const LossScalerConfig& config) {
  const auto& [constant, initial_scale, min_scale, growth_interval, hysteresis] = config;
  json["loss_scale"] = or_null(constant);
  json["initial_loss_scale"] = initial_scale;
  json["min_loss_scale"] = min_scale;
  json["loss_scale_window"] = growth_interval;
  json["hysteresis"] = hysteresis;
}

void add(Json& json, const DataParallelConfig& config) {
  const auto& [use_distributed_optimizer, overlap_grad_reduce, overlap_param_gather, grad_reduce_in_fp32,
               average_in_collective, pad_buckets, force_all_reduce, check_for_nan, check_for_large,
               bucket_size, num_buckets] = config;
  json["use_distributed_optimizer"] = use_distributed_optimizer;
  json["overlap_grad_reduce"] = overlap_grad_reduce;
  json["overlap_param_gather"] = overlap_param_gather;
  json["grad_reduce_in_fp32"] = grad_reduce_in_fp32;
  json["average_in_collective"] = average_in_collective;
  json["ddp_pad_buckets_for_high_nccl_busbw"] = pad_buckets;
  json["force_all_reduce"] = force_all_reduce;
  json["check_for_nan_in_grad"] = check_for_nan;
  json["check_for_large_grads"] = or_null(check_for_large);
  json["ddp_bucket_size"] = or_null(bucket_size);
  json["ddp_num_buckets"] = or_null(num_buckets);
}

void add(Json& json, const LinkModel& config) {
  const auto& [gbit_per_s, latency_us] = config;
  json["link_gbps"] = gbit_per_s;
  json["link_latency_us"] = latency_us;
}

}  // namespace

std::string to_json(const TrainConfig& config) {
  const auto& [model, model_factory, num_layers, hidden_size, num_attention_heads, seq_length,
               max_position_embeddings, param_dtype, vocab_size, make_vocab_size_divisible_by, data,
               valid_data, token_dtype, shuffle, seed, dp, micro_batch_size, global_batch_size,
               rampup_batch_size, train_iters, lr, eval_interval, eval_iters, eval, optimizer, data_parallel,
               loss_scale, check_for_nan_in_loss, device, comm, tf32, threads_per_rank, link, init,
               init_names, save_weights, trace] = config;
  Json json{
      {"model", model},
      {"data", data},
      {"num_layers", num_layers},
      {"hidden_size", hidden_size},
      {"num_attention_heads", num_attention_heads},
      {"seq_length", seq_length},
      {"max_position_embeddings", max_position_embeddings},
      {"params_dtype", name(param_dtype)},
      {"vocab_size", vocab_size},
      {"make_vocab_size_divisible_by", make_vocab_size_divisible_by},
      {"dp", dp},
      {"micro_batch_size", micro_batch_size},
      {"global_batch_size", global_batch_size},
      {"rampup_batch_size", json_of(rampup_batch_size)},
      {"train_iters", train_iters},
      {"seed", seed},
      {"shuffle", shuffle},
      {"valid_data", valid_data},
      {"token_dtype", name(token_dtype)},
      {"eval_interval", eval_interval},
      {"eval_iters", eval_iters},
      {"eval", eval},
      {"device", device},
      {"comm", comm},
      {"tf32", tf32},
      {"threads_per_rank", threads_per_rank},
      {"check_for_nan_in_loss", check_for_nan_in_loss},
  };
  add(json, lr);
  add(json, optimizer);
  add(json, loss_scale);
  add(json, data_parallel);
  add(json, link);
  // Not told: model_factory, which `model` names, and init, init_names, save_weights and trace, the files of
  // one start.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // a path may be no UTF-8
}

std::string model_json(const TrainConfig& config) {
  return Json{{"model", config.model},
              {"num_attention_heads", config.num_attention_heads},
              {"seq_length", config.seq_length},
              {"vocab_size", config.vocab_size}}
      .dump();
}

}  // namespace zero1
