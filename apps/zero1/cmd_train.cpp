// zero1 train: flags to a TrainConfig, and the run's output.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "apps/zero1/commands.h"
#include "apps/zero1/train_report.h"
#include "ckpt/train_hooks.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/train/trainer.h"

#ifdef ZERO1_WITH_CUDA
#include "core/train/machine_cuda.h"
#endif

namespace zero1::app {

namespace {

/// What the flags say that is not the run's own configuration.
struct TrainOptions {
  TrainConfig config;
  bool bf16 = false;
  bool fp16 = false;
  bool grad_reduce_in_low_precision = false;
  std::string lr_decay_style = "constant";
  std::string bucket_size;
  std::vector<std::string> param_groups;
  std::string config_file;
  std::string metrics;
  std::string svg;
  std::int64_t log_interval = 1;
  ckpt::SaveOptions save;
  ckpt::LoadOptions load;
  std::vector<std::string> renames;
};

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
  auto* bf16 =
      cmd.add_flag("--bf16", o.bf16, "Parameters and activations in bfloat16, main parameters in fp32");
  auto* fp16 = cmd.add_flag("--fp16", o.fp16, "The same in float16, with loss scaling");
  bf16->group(group);
  fp16->group(group)->excludes(bf16);
  cmd.add_option("--init", c.init, "Start from these weights (.safetensors)")
      ->group(group)
      ->type_name("FILE");
  cmd.add_option("--seed", c.seed, "For initial weights, generated data and shuffling")
      ->group(group)
      ->capture_default_str();
}

void add_data_flags(CLI::App& cmd, TrainOptions& o) {
  TrainConfig& c = o.config;
  const std::string group = "Data and batches";
  cmd.add_option("--data", c.data, "Train on the bytes of this file (default: a generated arithmetic corpus)")
      ->group(group)
      ->type_name("FILE");
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
  cmd.add_option("--train-iters", c.train_iters, "Iterations")->group(group)->capture_default_str();
  cmd.add_option("--valid-data", c.valid_data, "Evaluate on the bytes of this file")
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
  cmd.add_option("--lr-decay-style", o.lr_decay_style, "constant, linear or cosine")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--lr-decay-iters", c.lr.decay_iters, "Where --min-lr is reached (default: --train-iters)")
      ->group(group);
  cmd.add_option("--weight-decay", c.optimizer.weight_decay,
                 "Decoupled; on tensors of two or more dimensions")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--adam-beta1", c.optimizer.adam_beta1)->group(group)->capture_default_str();
  cmd.add_option("--adam-beta2", c.optimizer.adam_beta2)->group(group)->capture_default_str();
  cmd.add_option("--adam-eps", c.optimizer.adam_eps)->group(group)->capture_default_str();
  cmd.add_option("--clip-grad", c.optimizer.clip_grad, "Largest global gradient norm (0: no clipping)")
      ->group(group)
      ->capture_default_str();
  cmd.add_option("--param-group", o.param_groups,
                 "PATTERN:lr_mult=X,wd_mult=Y for the parameters whose names match, e.g. 'wpe.*:wd_mult=0'; "
                 "may be repeated, the first match decides")
      ->group(group)
      ->type_name("RULE")
      ->expected(1)
      ->take_all();
  cmd.add_option("--loss-scale", c.loss_scale.constant, "A fixed loss scale for --fp16 (default: dynamic)")
      ->group(group);
  cmd.add_option("--initial-loss-scale", c.loss_scale.initial_scale)->group(group)->capture_default_str();
  cmd.add_option("--min-loss-scale", c.loss_scale.min_scale)->group(group)->capture_default_str();
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
  cmd.add_flag("--check-for-nan-in-loss-and-grad,!--no-check-for-nan-in-loss-and-grad",
               d.check_for_nan_in_grad,
               "A NaN or infinity before a reduction ends the run (default: on; off: such steps are skipped)")
      ->group(group);
  cmd.add_option("--check-for-large-grads", d.check_for_large_grads,
                 "A gradient element beyond this ends the run")
      ->group(group)
      ->type_name("LIMIT");
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
                 "exposed_comm_ms, overlap")
      ->group(output)
      ->type_name("FILE.jsonl");
  cmd.add_option("--trace", c.trace, "Record every event; see `zero1 trace --help`")
      ->group(output)
      ->type_name("FILE");
  cmd.add_option("--svg", o.svg, "Draw the ownership map: which rank owns what")
      ->group(output)
      ->type_name("FILE.svg");
  cmd.add_option("--log-interval", o.log_interval, "Print every so many iterations (0: none)")
      ->group(output)
      ->capture_default_str();
  cmd.add_option(
         "--config", o.config_file,
         "Read flags from a TOML or INI file: key = value, keys as the flags here without dashes in front; "
         "flags on the command line win")
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
      ->group(group)
      ->check(CLI::NonNegativeNumber);
  cmd.add_option("--keep-last", o.save.keep_last, "Remove older checkpoints of DIR (0: keep all)")
      ->group(group)
      ->check(CLI::NonNegativeNumber);
  cmd.add_flag("--async-save", o.save.async, "Write behind training, from a snapshot")->group(group);
  cmd.add_option("--load", o.load.source,
                 "Go on from a checkpoint, saved with any --dp, bucket size and padding")
      ->group(group)
      ->type_name("DIR");
  cmd.add_flag("--strict,!--no-strict", o.load.strict,
               "--no-strict: load the parameters that both have, leave the others as they are")
      ->group(group);
  cmd.add_flag("--load-weights-only", o.load.weights_only,
               "A new run from these parameters: no moments, no step, no data position")
      ->group(group);
  cmd.add_option("--rename", o.renames, "OLD=NEW: a stored parameter under another name; may be repeated")
      ->group(group)
      ->expected(1)
      ->take_all();
  cmd.add_option("--ckpt-step", o.load.step, "Which step of --load DIR (default: the latest)")->group(group);
}

ParamGroupRule parse_param_group(const std::string& text) {
  const auto fail = [&] {
    throw InputError(fmt::format(
        "--param-group '{}': expected PATTERN:lr_mult=X,wd_mult=Y (either may be left out)", text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) fail();
  ParamGroupRule rule;
  rule.pattern = text.substr(0, colon);
  for (std::size_t at = colon + 1; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    const std::size_t equals = item.find('=');
    double value = 0;
    if (equals == std::string::npos || !CLI::detail::lexical_cast(item.substr(equals + 1), value) ||
        !(value >= 0))
      fail();
    if (item.starts_with("lr_mult="))
      rule.lr_mult = value;
    else if (item.starts_with("wd_mult="))
      rule.weight_decay_mult = value;
    else
      fail();
    at = end + 1;
  }
  return rule;
}

TrainConfig to_config(const TrainOptions& o) {
  TrainConfig config = o.config;
  if (o.bf16 && o.fp16) throw InputError("--bf16 and --fp16 exclude each other");
  if (o.bf16) config.param_dtype = DType::bf16;
  if (o.fp16) config.param_dtype = DType::fp16;
  config.data_parallel.grad_reduce_in_fp32 = !o.grad_reduce_in_low_precision;
  const std::optional<LrDecayStyle> style = parse_lr_decay_style(o.lr_decay_style);
  if (!style) {
    throw InputError(
        fmt::format("--lr-decay-style must be constant, linear or cosine, got '{}'", o.lr_decay_style));
  }
  config.lr.style = *style;
  if (!o.bucket_size.empty()) config.data_parallel.bucket_size_elems = parse_count(o.bucket_size);
  for (const std::string& text : o.param_groups)
    config.optimizer.param_groups.push_back(parse_param_group(text));
  return resolve(std::move(config));
}

/// Sets the flags that a file names and the command line does not.
void read_config_file(CLI::App& cmd, const std::string& path) {
  std::vector<CLI::ConfigItem> items;
  std::istringstream text(read_file(path));
  try {
    items = CLI::ConfigTOML().from_config(text);
  } catch (const CLI::Error& error) {
    throw InputError(fmt::format("--config {}: {}", path, error.what()));
  }
  for (const CLI::ConfigItem& item : items) {
    if (!item.parents.empty()) {
      throw InputError(
          fmt::format("--config {}: section [{}]: write the flags without sections", path, item.parents[0]));
    }
    CLI::Option* option = cmd.get_option_no_throw("--" + item.name);
    if (option == nullptr || option->get_name() == "--config" || option == cmd.get_help_ptr()) {
      throw InputError(fmt::format("--config {}: '{}' is no flag of `zero1 train`", path, item.name));
    }
    if (option->count() > 0) continue;
    try {
      if (option->get_items_expected_max() == 0) {
        option->add_result(
            option->get_flag_value(item.name, item.inputs.empty() ? "true" : item.inputs.front()));
      } else {
        option->add_result(item.inputs);
      }
      option->run_callback();
    } catch (const CLI::Error& error) {
      throw InputError(fmt::format("--config {}: {}: {}", path, item.name, error.what()));
    }
  }
}

/// Fails before the training and not after it: the outputs must be writable, and none may be a file that the
/// run reads, or another output.
void check_outputs(const TrainOptions& o) {
  using Flag = std::pair<const char*, const std::string*>;
  const Flag inputs[] = {{"--data", &o.config.data},
                         {"--valid-data", &o.config.valid_data},
                         {"--init", &o.config.init},
                         {"--config", &o.config_file}};
  const Flag outputs[] = {{"--metrics", &o.metrics},
                          {"--trace", &o.config.trace},
                          {"--svg", &o.svg},
                          {"--save-weights", &o.config.save_weights}};
  std::vector<Flag> others(std::begin(inputs), std::end(inputs));
  for (const auto& [flag, path] : outputs) {
    if (path->empty()) continue;
    for (const auto& [other_flag, other] : others) {
      // Weights are read when the run begins and replaced when it ends.
      if (path == &o.config.save_weights && other == &o.config.init) continue;
      if (!other->empty() && same_file(*path, *other)) {
        throw InputError(
            fmt::format("{} {}: {} names this file too; name another file", flag, *path, other_flag));
      }
    }
    others.emplace_back(flag, path);
  }
  std::error_code none;
  if (!o.svg.empty() && !std::filesystem::is_other(o.svg, none)) OutputFile{o.svg};
  if (!o.config.save_weights.empty()) OutputFile{o.config.save_weights};
}

/// CLI11 reads an empty number as 0: `--lr "$LR"` with LR unset would train at rate 0.
void check_no_value_is_empty(const CLI::App& cmd) {
  for (const CLI::Option* option : cmd.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) throw InputError(option->get_name() + ": the value is empty");
    }
  }
}

/// What the run's ranks run on. Prints what only that machine can say of itself.
MachineFactory choose_machine(const TrainConfig& config) {
  if (config.device != "cuda") return make_cpu_machine;
#ifdef ZERO1_WITH_CUDA
  print_machine(describe_cuda_machine(config));
  return make_cuda_machine;
#else
  throw InputError(
      "--device cuda: this zero1 was built without CUDA. Build it where nvcc is found, or use --device cpu");
#endif
}

/// Loads when a rank is ready, saves when a step has ended. Both objects must outlive the run.
void use_checkpoints(const TrainOptions& options, const TrainConfig& config, TrainObserver& observer,
                     std::optional<ckpt::Loader>& loader, std::optional<ckpt::Saver>& saver) {
  const bool load = !options.load.source.empty();
  if (!load &&
      (options.load.step || options.load.weights_only || !options.load.strict || !options.renames.empty())) {
    throw InputError("--ckpt-step, --no-strict, --load-weights-only and --rename need --load DIR");
  }
  if (load) {
    ckpt::LoadOptions load_options = options.load;
    for (const std::string& text : options.renames) {
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos) throw InputError(fmt::format("--rename '{}': expected OLD=NEW", text));
      load_options.renames.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    loader.emplace(load_options, config);
    fmt::print("Going on from {}: step {}, saved at dp {}\n", loader->folder(), loader->step(),
               loader->dp_size());
    for (const std::string& name : loader->not_loaded()) fmt::print("  not in the checkpoint: {}\n", name);
    observer.on_rank_ready = [&loader](int rank, RankTrainer& trainer) { loader->restore(rank, trainer); };
  }
  if (options.save.folder.empty()) {
    if (options.save.interval > 0 || options.save.keep_last > 0 || options.save.async) {
      throw InputError("--save-interval, --keep-last and --async-save need --save DIR");
    }
    return;
  }
  saver.emplace(options.save, config);
  observer.on_step_end = [&saver](int rank, RankTrainer& trainer, std::int64_t step) {
    saver->step_done(rank, trainer, step);
  };
}

int run_train(const TrainOptions& options) {
  const TrainConfig config = to_config(options);
  check_outputs(options);
  const MachineFactory make_machine = choose_machine(config);
  std::ofstream metrics;
  if (!options.metrics.empty()) {
    metrics.open(options.metrics, std::ios::trunc);
    if (!metrics) throw InputError(fmt::format("--metrics {}: cannot be written", options.metrics));
  }
  print_header(config);
  TrainObserver observer;
  observer.on_step = [&](const StepMetrics& step) {
    if (metrics.is_open()) metrics << to_json(step) << '\n' << std::flush;
    const bool due = options.log_interval > 0 && step.step % options.log_interval == 0;
    if (due || (options.log_interval > 0 && step.valid_loss)) print_step(config, step);
  };
  std::optional<ckpt::Loader> loader;
  std::optional<ckpt::Saver> saver;
  use_checkpoints(options, config, observer, loader, saver);
  const TrainSummary summary = train(config, observer, make_machine);
  if (saver) saver->finish();
  if (metrics.is_open() && !metrics.flush()) {
    throw Error(fmt::format("--metrics {}: writing failed", options.metrics));
  }
  print_summary(config, summary);
  if (saver)
    fmt::print("Checkpoints: {} saved, the last is {}\n", saver->published().size(),
               saver->published().back());
  if (!options.svg.empty()) write_ownership_svg(summary, options.svg);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error("standard output: cannot write");
  }
  return 0;
}

}  // namespace

void add_train_command(CLI::App& app, int& status) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* cmd =
      app.add_subcommand("train", "Train a model on in-process ranks with the whole ZeRO-1 pipeline");
  cmd->footer(
      "Examples:\n"
      "  zero1 train --dp 4 --train-iters 50\n"
      "  zero1 train --dp 4 --data book.txt --bf16 --overlap-grad-reduce --overlap-param-gather \\\n"
      "              --ddp-num-buckets 8 --link-gbps 1 --trace run.trace --svg map.svg\n"
      "The loss is the mean over the global batch; it does not depend on --dp beyond rounding.");
  cmd->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as in Megatron
  add_model_flags(*cmd, *options);
  add_data_flags(*cmd, *options);
  add_optimizer_flags(*cmd, *options);
  add_pipeline_flags(*cmd, *options);
  add_machine_flags(*cmd, *options);
  add_checkpoint_flags(*cmd, *options);
  cmd->callback([cmd, options, &status] {
    if (!options->config_file.empty()) read_config_file(*cmd, options->config_file);
    check_no_value_is_empty(*cmd);
    status = run_train(*options);
  });
}

}  // namespace zero1::app
