#include "apps/zero1/train_job.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "apps/zero1/cmd_ckpt_progress.h"
#include "apps/zero1/launcher.h"
#include "apps/zero1/train_report.h"
#include "ckpt/save_folder.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/output_file.h"
#include "core/base/terminal.h"
#include "core/train/weights.h"

#ifdef ZERO1_WITH_CUDA
#include "core/train/machine_cuda.h"
#endif

namespace zero1::app {

namespace {

/// No output may be a checkpoint's folder or replace a file of one.
void check_apart_from_checkpoints(const char* flag, const std::string& output, const TrainOptions& o) {
  namespace fs = std::filesystem;
  std::error_code none;
  const std::pair<const char*, const std::string*> folders[] = {{"--save", &o.save.folder},
                                                                {"--load", &o.load.source}};
  for (const auto& [folder_flag, folder] : folders) {
    if (folder->empty()) continue;
    const fs::path inside = fs::weakly_canonical(fs::absolute(output, none), none)
                                .lexically_relative(fs::weakly_canonical(fs::absolute(*folder, none), none));
    const bool is_folder = inside == ".";
    const bool is_inside = !inside.empty() && *inside.begin() != ".." && !is_folder;
    const bool is_part = is_inside && (inside.extension() == ".h5" || inside == ckpt::save_lock_name ||
                                       inside == ckpt::latest_name || inside == ckpt::best_name);
    if (is_folder || is_part) {
      throw InputError(fmt::format("{} {}: is {} {} {}; name another file", flag, output,
                                   is_folder ? "the folder of" : "part of a checkpoint of", folder_flag,
                                   *folder));
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
    check_apart_from_checkpoints(flag, *path, o);
    others.emplace_back(flag, path);
  }
  std::error_code none;
  if (!o.svg.empty() && !std::filesystem::is_other(o.svg, none)) OutputFile{o.svg};
  if (!o.config.save_weights.empty()) OutputFile{o.config.save_weights};
}

/// Processes that a launcher has started side by side know nothing of each other and have the same flags.
void check_launch(const TrainOptions& o) {
  const std::optional<Launch> launch = find_launch();
  if (!launch) return;
  const std::pair<const char*, const std::string*> outputs[] = {
      {"--save", &o.save.folder},   {"--metrics", &o.metrics}, {"--tensorboard-dir", &o.tensorboard_dir},
      {"--trace", &o.config.trace}, {"--svg", &o.svg},         {"--save-weights", &o.config.save_weights}};
  for (const auto& [flag, path] : outputs) {
    if (path->empty() || launch->rank == 0) continue;
    throw InputError(fmt::format(
        "{} {}: {}, which would write into the same place. Start it once, without the launcher; or, where "
        "separate runs are meant, give each a place of its own and hide the launcher: env -u {} zero1 train "
        "…",
        flag, *path, launch->text(), launch->variable));
  }
  say(stderr, "warning: {}. Start it once, without the launcher\n", launch->text());
}

const char* save_words(const TrainOptions& o) {
  return o.save.folder.empty()
             ? "\nzero1: SIGUSR1 saves a checkpoint, but without --save DIR there is no place for it\n"
             : "\nzero1: SIGUSR1: saving after this iteration\n";
}

/// Tokens that the model does not have would end the run when they are read, hours later perhaps.
void check_tokens(const TrainConfig& config, const std::string& path) {
  if (path.empty()) return;
  const TokenFile file(path, {config.token_dtype, config.vocab_size});
  constexpr std::int64_t takes_long_bytes = 1 << 28;
  const auto line = progress_line();
  file.check([&](std::int64_t done, std::int64_t total) {
    if (total >= takes_long_bytes) line(done, total);
  });
}

}  // namespace

TrainJob::TrainJob(const TrainOptions& options)
    : start_ns_(now_ns()),
      options_(options),
      save_signal_(save_words(options)),
      config_(train_config(options)) {
  check_outputs(options);
  check_launch(options);
  for (const std::string& path : {config_.data, config_.valid_data}) check_tokens(config_, path);
  open_checkpoints();
  metrics_.emplace(options.metrics);  // last: they make files
  tensorboard_.emplace(options.tensorboard_dir);
}

MachineFactory TrainJob::machine() const {
  if (config_.device != "cuda") return make_cpu_machine;
#ifdef ZERO1_WITH_CUDA
  print_machine(describe_cuda_machine(config_));
  return make_cuda_machine;
#else
  throw InputError(
      "--device cuda: this program was built without CUDA. Build it where nvcc is found, or use --device "
      "cpu");
#endif
}

void TrainJob::open_checkpoints() {
  const bool load = !options_.load.source.empty();
  if (load) {
    ckpt::LoadOptions load_options = options_.load;
    load_options.names = options_.names;
    if (options_.override_schedule) load_options.hyperparameters = ckpt::Hyperparameters::of_flags;
    if (options_.use_checkpoint_schedule) load_options.hyperparameters = ckpt::Hyperparameters::of_checkpoint;
    load_options.allowed_changes = options_.allowed_changes;
    // Who gives a number means it; --dp alone, which makes the default another one, does not say so.
    if (options_.config.global_batch_size != 0) load_options.allowed_changes.push_back("global-batch-size");
    loader_.emplace(load_options, config_);
    config_ = loader_->config();
  }
  open_saver();
}

void TrainJob::open_saver() {
  ckpt::SaveOptions save = options_.save;
  if (save.folder.empty()) return;
  if (save.best && config_.valid_data.empty()) {
    throw InputError(
        "--save-best needs evaluations: --valid-data FILE with --eval-interval N, or with --eval at the end");
  }
  if (loader_) {
    save.base.folder = loader_->folder();
    save.base.loaded_step = loader_->step();
    if (!options_.load.weights_only) {
      save.base.step = loader_->step();
      save.base.best = loader_->state().best;
    }
  }
  save.requested = SaveSignal::take;
  save.on_requested = [](const std::string& folder) { say(stderr, "zero1: saved {}\n", folder); };
  saver_.emplace(std::move(save), config_);
}

std::vector<std::string> TrainJob::notes() const {
  namespace fs = std::filesystem;
  std::vector<std::string> notes;
  if (saver_) notes = saver_->notes();
  if (!loader_) return notes;
  std::error_code none;
  const fs::path root = fs::weakly_canonical(fs::absolute(loader_->folder(), none), none).parent_path();
  const bool same = saver_ && fs::equivalent(root, options_.save.folder, none);
  if (const std::string note = same ? "" : ckpt::leftover_note(root.string()); !note.empty())
    notes.push_back("--load " + note);
  return notes;
}

void TrainJob::print_origin() const {
  for (const std::string& note : options_.notes) say("note: {}\n", note);
  if (loader_) {
    say("{} {}: step {}, saved at dp {}\n",
        options_.load.weights_only ? "A new run, with the parameters of" : "Going on from", loader_->folder(),
        loader_->step(), loader_->dp_size());
    for (const std::string& note : loader_->notes()) say("  {}\n", note);
  }
  if (config_.init.empty()) return;
  const auto tensors = check_weights(make_model(config_)->param_specs(), config_);
  for (const std::string& note : describe(tensors)) say("--init {}: {}\n", config_.init, note);
}

void TrainJob::observe(TrainObserver& observer) {
  observer.on_step = [this, also = std::move(observer.on_step)](const StepMetrics& step) {
    metrics_->write(step);
    tensorboard_->write(step);
    if (also) also(step);
  };
  if (options_.exit_duration_in_mins) {
    constexpr double ns_per_min = 60e9;
    observer.stop_requested = [this, limit_ns = *options_.exit_duration_in_mins * ns_per_min,
                               also = std::move(observer.stop_requested)] {
      if (also && also()) return true;
      time_is_up_ = static_cast<double>(now_ns() - start_ns_) >= limit_ns;
      return time_is_up_.load();
    };
  }
  if (loader_) {
    observer.on_rank_ready = [this](int rank, RankTrainer& trainer) { loader_->restore(rank, trainer); };
  }
  if (saver_) {
    observer.on_step_end = [this](int rank, RankTrainer& trainer, std::int64_t step) {
      saver_->step_done(rank, trainer, step);
    };
    observer.on_rank_done = [this](int rank, RankTrainer& trainer) { saver_->rank_done(rank, trainer); };
  }
}

void TrainJob::finish() {
  if (saver_) saver_->finish();
  metrics_->finish();
  tensorboard_->finish();
}

void TrainJob::draw(const TrainSummary& summary) const {
  if (!options_.svg.empty()) write_ownership_svg(summary, options_.svg);
}

}  // namespace zero1::app
