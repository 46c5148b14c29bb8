// zero1 train: runs what the flags ask for, and reports.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "apps/zero1/commands.h"
#include "apps/zero1/train_flags.h"
#include "apps/zero1/train_report.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/output_file.h"
#include "core/train/trainer.h"

#ifdef ZERO1_WITH_CUDA
#include "core/train/machine_cuda.h"
#endif

namespace zero1::app {

namespace {

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
/// What the checkpoint decides goes into `config`.
void use_checkpoints(const TrainOptions& options, TrainConfig& config, TrainObserver& observer,
                     std::optional<ckpt::Loader>& loader, std::optional<ckpt::Saver>& saver) {
  const bool load = !options.load.source.empty();
  if (!load && (options.load.step || options.load.weights_only || !options.load.strict ||
                !options.renames.empty() || options.override_schedule || options.use_checkpoint_schedule)) {
    throw InputError(
        "--ckpt-step, --no-strict, --load-weights-only, --rename, --override-opt_param-scheduler and "
        "--use-checkpoint-opt_param-scheduler need --load DIR");
  }
  if (load) {
    ckpt::LoadOptions load_options = options.load;
    for (const std::string& text : options.renames) {
      const std::size_t equals = text.find('=');
      if (equals == std::string::npos) throw InputError(fmt::format("--rename '{}': expected OLD=NEW", text));
      load_options.renames.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    if (options.override_schedule) load_options.hyperparameters = ckpt::Hyperparameters::of_flags;
    if (options.use_checkpoint_schedule) load_options.hyperparameters = ckpt::Hyperparameters::of_checkpoint;
    loader.emplace(load_options, config);
    config = loader->config();
    fmt::print("Going on from {}: step {}, saved at dp {}\n", loader->folder(), loader->step(),
               loader->dp_size());
    for (const std::string& note : loader->notes()) fmt::print("  {}\n", note);
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
  observer.on_rank_done = [&saver](int rank, RankTrainer& trainer) { saver->rank_done(rank, trainer); };
}

int run_train(const TrainOptions& options) {
  TrainConfig config = train_config(options);
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
  add_train_flags(*cmd, *options);
  cmd->callback([cmd, options, &status] {
    complete_train_flags(*cmd, *options);
    status = run_train(*options);
  });
}

}  // namespace zero1::app
