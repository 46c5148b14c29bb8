// The flags of `zero1 train`, and what they say.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ckpt/train_hooks.h"
#include "core/train/config.h"

namespace zero1::app {

/// What the flags say that is not the run's own configuration.
struct TrainOptions {
  TrainConfig config;
  bool bf16 = false;
  bool fp16 = false;
  bool grad_reduce_in_low_precision = false;
  std::string lr_decay_style = "constant";
  std::string lr_wsd_decay_style;               ///< empty: the default
  std::vector<std::int64_t> rampup_batch_size;  ///< empty, or START, INCREMENT, SAMPLES
  std::string bucket_size;
  std::vector<std::string> param_groups;
  std::string config_file;
  std::string token_dtype;  ///< empty: by the file's name
  std::string metrics;
  std::string tensorboard_dir;
  std::string svg;
  std::int64_t log_interval = 1;
  ckpt::SaveOptions save;
  ckpt::LoadOptions load;
  NameRules names;  ///< of what --load or --init reads
  std::vector<std::string> allowed_changes;
  bool override_schedule = false;
  bool use_checkpoint_schedule = false;
  std::vector<std::string> notes;  ///< on flags that change nothing in this run
};

/// Adds every flag; parsing fills `options`, which must outlive it.
void add_train_flags(CLI::App& cmd, TrainOptions& options);

/// After parsing: sets the flags that --config names and the command line does not, and checks that each has
/// an effect beside the others. Throws InputError.
void complete_train_flags(CLI::App& cmd, TrainOptions& options);

/// The run that the flags ask for, resolved and checked. Throws InputError naming the flag.
TrainConfig train_config(const TrainOptions& options);

}  // namespace zero1::app
