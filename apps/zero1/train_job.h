// What the flags of `zero1 train` ask for beside training itself: the machine, outputs and checkpoints.
// Shared by whatever runs a training: the command, and the window.
#pragma once

#include <optional>

#include "apps/zero1/metrics_file.h"
#include "apps/zero1/tensorboard_file.h"
#include "apps/zero1/train_flags.h"
#include "core/train/machine.h"
#include "core/train/trainer.h"

namespace zero1::app {

/// Outlives the run that it observes.
class TrainJob {
 public:
  /// Checks everything that can be checked before the run. Throws InputError naming the flag.
  explicit TrainJob(const TrainOptions& options);

  const TrainConfig& config() const { return config_; }
  /// What the run's ranks run on. Prints what only that machine can say of itself.
  MachineFactory machine() const;
  /// Sets what loads, saves and writes metrics; `on_step`, where it is set already, is called too.
  void observe(TrainObserver& observer);
  /// After the run: waits for saves and closes the metrics. Throws Error.
  void finish();
  /// The map that --svg asks for. Throws Error.
  void draw(const TrainSummary& summary) const;

  /// Prints what the run begins with, and everything that loading decided or left out. Throws InputError
  /// where
  /// --init does not fit.
  void print_origin() const;
  const std::optional<ckpt::Loader>& loader() const { return loader_; }
  const std::optional<ckpt::Saver>& saver() const { return saver_; }

 private:
  void open_checkpoints();

  TrainOptions options_;
  TrainConfig config_;
  MetricsFile metrics_;
  TensorboardFile tensorboard_;
  std::optional<ckpt::Loader> loader_;
  std::optional<ckpt::Saver> saver_;
};

}  // namespace zero1::app
