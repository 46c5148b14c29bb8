#include "apps/zero1/train_flags.h"

#include <fmt/core.h>

#include <cmath>
#include <map>
#include <set>

#include "apps/zero1/config_file.h"
#include "apps/zero1/flag_values.h"
#include "apps/zero1/name_flags.h"
#include "apps/zero1/train_flag_pairs.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/numbers.h"
#include "core/base/text.h"

namespace zero1::app {

namespace {

void add_model_flags(CLI::App& cmd, TrainOptions& o) {
  TrainConfig& c = o.config;
  const std::string group = "Model";
  cmd.add_option("--model", c.model, "gpt, or mlp: the smallest example")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--num-layers", c.num_layers, "Transformer blocks")->group(group)->capture_default_str();
  cmd.add_option("--hidden-size", c.hidden_size, "Model width")->group(group)->capture_default_str();
  cmd.add_option("--num-attention-heads", c.num_attention_heads, "Must divide --hidden-size")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--seq-length", c.seq_length, "Tokens in a sequence")->group(group)->capture_default_str();
  cmd.add_option("--max-position-embeddings", c.max_position_embeddings,
                 "Rows of wpe (default: --seq-length)")
      ->group(group);
  cmd.add_option("--vocab-size", c.vocab_size,
                 "Size of the vocabulary: every token of the data is below it (default: 256, bytes)")
      ->group(group);
  cmd.add_option("--make-vocab-size-divisible-by", c.make_vocab_size_divisible_by,
                 "Pad the embedding to a multiple of this; padding takes part in the softmax, as in Megatron")
      ->group(group)
      ->capture_default_str();
  auto* bf16 =
      cmd.add_flag("--bf16", o.bf16, "Parameters and activations in bfloat16, main parameters in fp32");
  auto* fp16 = cmd.add_flag("--fp16", o.fp16, "The same in float16, with loss scaling");
  bf16->group(group);
  fp16->group(group);
  cmd.add_option("--init", c.init, "Start from these weights: .safetensors, its index or folder")
      ->group(group)
      ->type_name("FILE");
  cmd.add_option("--seed", c.seed, "For initial weights, generated data and shuffling")
      ->group(group)
      ->capture_default_str();
}

void add_data_flags(CLI::App& cmd, TrainOptions& o) {
  TrainConfig& c = o.config;
  const std::string group = "Data and batches";
  cmd.add_option(
         "--data", c.data,
         "Train on the bytes of this file, or on its token ids where its name ends in .bin: uint16, or as "
         "a header of llm.c says (default: a generated arithmetic corpus)")
      ->group(group)
      ->type_name("FILE");
  cmd.add_option(
         "--token-dtype", o.token_dtype,
         "How the data's tokens are stored, whatever the file is called: uint16, uint32, or uint8 for bytes")
      ->group(group);
  cmd.add_flag("--shuffle", c.shuffle, "Visit the sequences in a seeded random order")->group(group);
  cmd.add_option("--dp", c.dp, "Data-parallel ranks, as threads of this process")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--micro-batch-size", c.micro_batch_size, "Sequences per rank and microbatch")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--global-batch-size", c.global_batch_size,
                 "Sequences per iteration over all ranks (default: --micro-batch-size times --dp)")
      ->group(group);
  cmd.add_option(
         "--rampup-batch-size", o.rampup_batch_size,
         "A batch that begins with START sequences and grows by INCREMENT up to --global-batch-size, in "
         "equal stretches of the first SAMPLES sequences")
      ->group(group)
      ->type_name("START INCREMENT SAMPLES")
      ->expected(3);
  cmd.add_option("--train-iters", c.train_iters, "Iterations")->group(group)->capture_default_str();
  cmd.add_option("--valid-data", c.valid_data, "Evaluate on this file, read as --data")
      ->group(group)
      ->type_name("FILE");
  cmd.add_option("--eval-interval", c.eval_interval, "Evaluate every so many iterations (0: never)")
      ->group(group);
  cmd.add_option("--eval-iters", c.eval_iters, "Global batches per evaluation")
      ->group(group)
      ->capture_default_str();
}

void add_optimizer_flags(CLI::App& cmd, TrainOptions& o) {
  TrainConfig& c = o.config;
  const std::string group = "Optimizer";
  cmd.add_option("--lr", c.lr.lr, "Learning rate")->group(group)->capture_default_str();
  cmd.add_option("--min-lr", c.lr.min_lr, "Where the decay ends")->group(group)->capture_default_str();
  cmd.add_option("--lr-warmup-iters", c.lr.warmup_iters,
                 "Linear warm-up; the first iteration runs at 0, as in Megatron")
      ->group(group)
      ->capture_default_str();
  cmd.add_option(
         "--lr-decay-style", o.lr_decay_style,
         "constant, linear, cosine, inverse-square-root or WSD (warm-up, stable, decay). Iterations move "
         "the schedule when they are not skipped; one of --rampup-batch-size by its share of a full batch")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--lr-decay-iters", c.lr.decay_iters,
                 "Where --min-lr is reached (default: --train-iters, in full batches)")
      ->group(group);
  cmd.add_option("--lr-wsd-decay-iters", c.lr.wsd_decay_iters,
                 "Of --lr-decay-iters the last, in which WSD decays")
      ->group(group);
  cmd.add_option("--lr-wsd-decay-style", o.lr_wsd_decay_style,
                 "How WSD decays: exponential, linear, cosine or minus_sqrt (default: exponential)")
      ->group(group);
  cmd.add_option("--weight-decay", c.optimizer.weight_decay,
                 "Decoupled; on tensors of two or more dimensions")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--adam-beta1", c.optimizer.adam_beta1, "Decay of the first moment, the mean of gradients")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--adam-beta2", c.optimizer.adam_beta2, "Decay of the second, the mean of their squares")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--adam-eps", c.optimizer.adam_eps, "Added to the root of the second moment")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--clip-grad", c.optimizer.clip_grad, "Largest global gradient norm (0: no clipping)")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--param-group", o.param_groups,
                 "PATTERN:lr_mult=X,wd_mult=Y for the parameters whose whole names match, e.g. "
                 "'wpe.*:wd_mult=0'; as in a shell, * is any text, ? one character, [abc] or [!abc] one of "
                 "a set; may be repeated, the first match decides")
      ->group(group)
      ->type_name("RULE")
      ->expected(1)
      ->take_all();
  cmd.add_option("--loss-scale", c.loss_scale.constant, "A fixed loss scale for --fp16 (default: dynamic)")
      ->group(group);
  cmd.add_option("--initial-loss-scale", c.loss_scale.initial_scale, "Where the dynamic scale begins")
      ->group(group)
      ->default_str("2^32");
  cmd.add_option("--min-loss-scale", c.loss_scale.min_scale, "It never falls below this")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--loss-scale-window", c.loss_scale.growth_interval,
                 "Steps without overflow before the scale doubles")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--hysteresis", c.loss_scale.hysteresis, "Overflows before the scale halves")
      ->group(group)
      ->capture_default_str();
}

void add_pipeline_flags(CLI::App& cmd, TrainOptions& o) {
  DataParallelConfig& d = o.config.data_parallel;
  const std::string group = "Distributed optimizer";
  cmd.add_flag("--use-distributed-optimizer,!--no-use-distributed-optimizer", d.use_distributed_optimizer,
               "Shard the optimizer states over the ranks (default: on; --no-…: plain data parallelism)")
      ->group(group);
  cmd.add_flag("--overlap-grad-reduce,!--no-overlap-grad-reduce", d.overlap_grad_reduce,
               "Reduce a bucket as soon as its gradients are complete, while backward goes on")
      ->group(group);
  cmd.add_flag("--overlap-param-gather,!--no-overlap-param-gather", d.overlap_param_gather,
               "Gather a bucket's parameters while earlier layers compute")
      ->group(group);
  cmd.add_option("--ddp-bucket-size", o.bucket_size,
                 "Elements per bucket, e.g. 40M (default: max(40M, 1M x dp) with --overlap-grad-reduce, one "
                 "bucket without)")
      ->group(group)
      ->type_name("COUNT");
  cmd.add_option("--ddp-num-buckets", d.num_buckets, "About so many buckets instead")->group(group);
  cmd.add_flag("--ddp-pad-buckets-for-high-nccl-busbw", d.pad_buckets_for_high_nccl_busbw,
               "Pad buckets to multiples of 2^16 elements")
      ->group(group);
  cmd.add_flag("--ddp-average-in-collective", d.average_in_collective,
               "Average in the collective instead of pre-scaling")
      ->group(group);
  cmd.add_flag("--grad-reduce-in-bf16,--grad-reduce-in-low-precision", o.grad_reduce_in_low_precision,
               "Keep and reduce gradients in the parameters' dtype (default: fp32)")
      ->group(group);
  cmd.add_flag(
         "--check-for-nan-in-loss-and-grad,!--no-check-for-nan-in-loss-and-grad", d.check_for_nan_in_grad,
         "A loss that is NaN or infinite ends the run, and so does such a gradient before its reduction; "
         "under dynamic loss scaling a gradient only makes its step skipped (default: on; off: such steps "
         "are skipped, but a run that only skips ends)")
      ->group(group);
  cmd.add_option("--check-for-large-grads", d.check_for_large_grads,
                 "A gradient element beyond this ends the run")
      ->group(group);
  cmd.add_flag("--force-all-reduce", d.force_all_reduce,
               "All-reduce instead of reduce-scatter: whole gradients everywhere")
      ->group(group);
}

void add_machine_flags(CLI::App& cmd, TrainOptions& o) {
  TrainConfig& c = o.config;
  const std::string machine = "Machine";
  cmd.add_option("--device", c.device, "cpu, or cuda: NVIDIA GPUs")->group(machine)->capture_default_str();
  cmd.add_option(
         "--comm", c.comm,
         "How ranks communicate: local (in this process; on GPUs several ranks may share one), or nccl "
         "(a GPU per rank) (default: nccl with --device cuda, else local)")
      ->group(machine);
  cmd.add_flag("--tf32", c.tf32, "On GPUs: matrix products of fp32 in TF32, faster with a 10-bit mantissa")
      ->group(machine);
  cmd.add_option("--threads-per-rank", c.threads_per_rank,
                 "CPU threads of one rank's compute (default: cores / dp)")
      ->group(machine);
  cmd.add_option("--link-gbps", c.link.gbit_per_s,
                 "Model an interconnect of this bandwidth per rank, in Gbit/s (0: none)")
      ->group(machine);
  cmd.add_option("--link-latency-us", c.link.latency_us, "Its latency per ring step, in microseconds")
      ->group(machine);
  const std::string output = "Output";
  cmd.add_option("--save-weights", c.save_weights, "Write the final parameters (.safetensors)")
      ->group(output)
      ->type_name("FILE");
  cmd.add_option("--metrics", o.metrics,
                 "Write one JSON object per iteration: step, loss, grad_norm, lr, tokens, ms, comm_ms, "
                 "exposed_comm_ms, overlap; or the same as a table where the name ends in .csv")
      ->group(output)
      ->type_name("FILE.jsonl");
  cmd.add_option("--tensorboard-dir", o.tensorboard_dir,
                 "Write the metrics as an event file of TensorBoard into this folder")
      ->group(output)
      ->type_name("DIR");
  cmd.add_option("--trace", c.trace, "Record every event; see `zero1 trace --help`")
      ->group(output)
      ->type_name("FILE");
  cmd.add_option("--svg", o.svg, "Draw the ownership map: which rank owns what")
      ->check(not_an_svg)
      ->group(output)
      ->type_name("FILE.svg");
  cmd.add_option("--log-interval", o.log_interval, "Print every so many iterations (0: none)")
      ->group(output)
      ->capture_default_str();
  cmd.add_option("--config", o.config_file,
                 "Read flags from a file: `key = value` a line, as TOML and INI have it, keys as the flags "
                 "here without dashes in front; flags on the command line win")
      ->group(output)
      ->type_name("FILE");
}

void add_checkpoint_flags(CLI::App& cmd, TrainOptions& o) {
  const std::string group = "Checkpoints";
  cmd.add_option("--save", o.save.folder,
                 "Save into DIR/step_…: at the end, and every --save-interval iterations")
      ->group(group)
      ->type_name("DIR");
  cmd.add_option("--save-interval", o.save.interval, "Iterations between saves (0: only at the end)")
      ->group(group);
  cmd.add_option("--keep-last", o.save.keep_last, "Remove older checkpoints of DIR (0: keep all)")
      ->group(group);
  cmd.add_flag("--async-save", o.save.async, "Write behind training, from a snapshot")->group(group);
  cmd.add_option("--load", o.load.source,
                 "Go on from a checkpoint, saved with any --dp, bucket size and padding")
      ->group(group)
      ->type_name("DIR");
  cmd.add_flag("--strict,!--no-strict", o.load.strict,
               "--no-strict: load the parameters that both have, and list those that only one side has")
      ->group(group);
  cmd.add_flag("--load-weights-only", o.load.weights_only,
               "A new run from these parameters: no moments, no step, no data position")
      ->group(group);
  add_name_flags(cmd, o.names, "Names of stored tensors (--load, --init)");
  cmd.add_option(
         "--allow-change", o.allowed_changes,
         "Names of flags, as seq-length,data: they may be other than in the checkpoint, although the run "
         "then computes something else or reads other data")
      ->group(group)
      ->type_name("NAMES")
      ->delimiter(',')
      ->expected(1)
      ->take_all();
  auto* use_checkpoint = cmd.add_flag("--use-checkpoint-opt_param-scheduler", o.use_checkpoint_schedule,
                                      "Learning rate, its schedule, weight decay, AdamW's coefficients and "
                                      "parameter groups of the checkpoint "
                                      "(default: they must agree with the flags)");
  auto* override_schedule = cmd.add_flag("--override-opt_param-scheduler", o.override_schedule,
                                         "These as the flags say, whatever the checkpoint has");
  use_checkpoint->group(group);
  override_schedule->group(group)->excludes(use_checkpoint);
  cmd.add_option("--ckpt-step", o.load.step, "Which step of --load DIR (default: the latest)")->group(group);
}

/// "lr_mult=X" or "wd_mult=X" into the rule; false where it is neither, or there already.
bool parse_multiplier(const std::string& item, ParamGroupRule& rule, std::set<std::string>& seen) {
  const std::size_t equals = item.find('=');
  if (equals == std::string::npos) return false;
  const std::string key = item.substr(0, equals);
  const double value = parse_real(item.substr(equals + 1)).value_or(-1);
  if (!(value >= 0) || !std::isfinite(value)) return false;
  if (key == "lr_mult")
    rule.lr_mult = value;
  else if (key == "wd_mult")
    rule.weight_decay_mult = value;
  else
    return false;
  return seen.insert(key).second;
}

ParamGroupRule parse_param_group(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  bool good = colon != std::string::npos && colon > 0 && colon + 1 < text.size();
  ParamGroupRule rule;
  std::set<std::string> seen;
  for (std::size_t at = colon + 1; good && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    good = parse_multiplier(text.substr(at, end - at), rule, seen);
    at = end + 1;
  }
  if (!good) {
    throw InputError(fmt::format(
        "--param-group '{}': expected PATTERN:lr_mult=X,wd_mult=Y, each a finite number of 0 or more; "
        "either may be left out",
        text));
  }
  rule.pattern = text.substr(0, colon);
  return rule;
}

void require_not_negative(std::int64_t value, const char* flag) {
  if (value < 0) throw InputError(fmt::format("{} must be 0 or more, got {}", flag, value));
}

/// What a config file says of one flag, as the command line would have said it.
void set_flag(CLI::Option& option, const ConfigEntry& entry) {
  const bool takes_many = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                          option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) {
    if (entry.values.size() > 1) throw InputError(entry.key + ": expected true or false, found a list");
    option.add_result(option.get_flag_value(entry.key, entry.values.empty() ? "true" : entry.values.front()));
  } else if (entry.values.empty() || (entry.values.size() > 1 && !takes_many)) {
    throw InputError(fmt::format("{}: expected one value, found {}", entry.key, entry.values.size()));
  } else {
    option.add_result(entry.values);
  }
  option.run_callback();
}

/// The flag that `key` names; `--config` in a file and `--help` are none.
CLI::Option& find_flag(CLI::App& cmd, const std::string& key) {
  CLI::Option* option = cmd.get_option_no_throw("--" + key);
  if (option != nullptr && option->get_name() != "--config" && option != cmd.get_help_ptr()) return *option;
  std::vector<std::string> keys;
  for (const CLI::Option* each : cmd.get_options()) {
    keys.insert(keys.end(), each->get_lnames().begin(), each->get_lnames().end());
  }
  throw InputError(
      fmt::format("'{}' is no flag of `zero1 train`{}", printable(key), did_you_mean(key, keys)));
}

/// Sets the flags that a file names and the command line does not.
void read_config_file(CLI::App& cmd, const std::string& path) {
  const auto fail = [&](const std::string& why) {
    throw InputError(fmt::format("--config {}, {}", path, why));
  };
  std::vector<ConfigEntry> entries;
  const std::string text = read_file(path);
  try {
    entries = parse_config(text);
  } catch (const InputError& error) {
    fail(error.what());
  }
  std::map<const CLI::Option*, std::int64_t> line_of;
  for (const ConfigEntry& entry : entries) {
    try {
      CLI::Option& option = find_flag(cmd, entry.key);
      const auto [known, is_new] = line_of.emplace(&option, entry.line);
      if (!is_new)
        throw InputError(fmt::format("'{}' appears twice, first in line {}", entry.key, known->second));
      if (option.count() == 0) set_flag(option, entry);
    } catch (const std::runtime_error& error) {  // of CLI11 or ours
      fail(fmt::format("line {}: {}", entry.line, error.what()));
    }
  }
}

}  // namespace

TrainConfig train_config(const TrainOptions& o) {
  TrainConfig config = o.config;
  if (o.bf16 && o.fp16) throw InputError("--bf16 and --fp16 exclude each other");
  if (o.bf16) config.param_dtype = DType::bf16;
  if (o.fp16) config.param_dtype = DType::fp16;
  if (!o.token_dtype.empty()) {
    const std::optional<TokenDType> dtype = parse_token_dtype(o.token_dtype);
    if (!dtype) {
      throw InputError(fmt::format("--token-dtype must be uint8, uint16 or uint32, got '{}'", o.token_dtype));
    }
    config.token_dtype = *dtype;
  }
  config.data_parallel.grad_reduce_in_fp32 = !o.grad_reduce_in_low_precision;
  const std::optional<LrDecayStyle> style = parse_lr_decay_style(o.lr_decay_style);
  if (!style) {
    throw InputError(
        fmt::format("--lr-decay-style must be constant, linear, cosine, inverse-square-root or WSD, got '{}'",
                    o.lr_decay_style));
  }
  config.lr.style = *style;
  if (!o.lr_wsd_decay_style.empty()) {
    if (*style != LrDecayStyle::wsd) throw InputError("--lr-wsd-decay-style needs --lr-decay-style WSD");
    const std::optional<WsdDecayStyle> wsd_style = parse_wsd_decay_style(o.lr_wsd_decay_style);
    if (!wsd_style) {
      throw InputError(
          fmt::format("--lr-wsd-decay-style must be exponential, linear, cosine or minus_sqrt, got '{}'",
                      o.lr_wsd_decay_style));
    }
    config.lr.wsd_style = *wsd_style;
  }
  if (!o.rampup_batch_size.empty())
    config.rampup_batch_size = {o.rampup_batch_size[0], o.rampup_batch_size[1], o.rampup_batch_size[2]};
  config.check_for_nan_in_loss = config.data_parallel.check_for_nan_in_grad;
  if (!o.bucket_size.empty())
    config.data_parallel.bucket_size_elems = parse_bucket_size("--ddp-bucket-size", o.bucket_size);
  require_not_negative(o.log_interval, "--log-interval");
  require_not_negative(o.save.interval, "--save-interval");
  require_not_negative(o.save.keep_last, "--keep-last");
  config.init_names = o.names;
  for (const std::string& text : o.param_groups)
    config.optimizer.param_groups.push_back(parse_param_group(text));
  return resolve(std::move(config));
}

void add_train_flags(CLI::App& cmd, TrainOptions& options) {
  add_model_flags(cmd, options);
  add_data_flags(cmd, options);
  add_optimizer_flags(cmd, options);
  add_pipeline_flags(cmd, options);
  add_machine_flags(cmd, options);
  add_checkpoint_flags(cmd, options);
}

void complete_train_flags(CLI::App& cmd, TrainOptions& options) {
  if (!options.config_file.empty()) read_config_file(cmd, options.config_file);
  check_flag_pairs(cmd, options);
}

}  // namespace zero1::app
