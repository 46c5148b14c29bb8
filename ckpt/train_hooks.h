// Saving and loading in a training run: connects core/train's observer with checkpoints.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/hyperparameters.h"
#include "core/data/name_rules.h"
#include "core/train/trainer.h"

namespace zero1::ckpt {

struct SaveOptions {
  std::string folder;          ///< step folders and `latest` go here
  std::int64_t interval = 0;   ///< every so many steps; 0: only after the last
  std::int64_t keep_last = 0;  ///< older ones are removed after publishing; 0: all are kept
  bool async = false;          ///< write behind training, from a snapshot
};

struct LoadOptions {
  std::string source;                ///< one checkpoint, or a folder of them
  std::optional<std::int64_t> step;  ///< of a folder, which; the latest without
  bool strict = true;                ///< off: what only one side has is left alone
  bool weights_only = false;         ///< a new run from these parameters: no moments, no step
  NameRules names = {};              ///< what the run calls the stored parameters
  Hyperparameters hyperparameters = Hyperparameters::must_agree;
  std::vector<std::string> allowed_changes = {};  ///< of the configuration (config_rules.h)
};

/// Saves every rank's shards. Ranks write their own files without waiting for each other; whoever is last
/// publishes. `save` is called on each rank's thread.
class Saver {
 public:
  /// Throws InputError where nothing can be written.
  Saver(SaveOptions options, const TrainConfig& config);
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  ~Saver();  ///< unpublished folders are removed

  /// To be called after every step; saves when it is due. What is saved is this moment, also with `async`.
  void step_done(int rank, RankTrainer& trainer, std::int64_t step);

  /// To be called when a rank is done, before it is torn down: saves its last step unless step_done has,
  /// waits until that is written, and records when that was (what is written behind training, the rank itself
  /// cannot time).
  void rank_done(int rank, RankTrainer& trainer);

  /// Waits for what is still being written. Throws what went wrong.
  void finish();

  /// The folders published so far.
  std::vector<std::string> published() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Restores ranks from one checkpoint, whatever layout it was saved with. Each rank reads only what
/// overlaps its shards.
class Loader {
 public:
  /// Opens the checkpoint and compares it with the run: throws InputError that lists every parameter that
  /// is missing, unexpected or of another shape (the last also when not strict), or everything of
  /// the configuration that must agree and does not (hyperparameters.h), and what else does not fit.
  Loader(const LoadOptions& options, const TrainConfig& config);
  ~Loader();

  /// On each rank's thread, all ranks, once; returns when all hold the same parameters. The checkpoint is
  /// closed when the last has returned: the run may prune it then.
  void restore(int rank, RankTrainer& trainer) const;

  /// What to run: the configuration with what the checkpoint decides.
  const TrainConfig& config() const;
  /// What people must hear, a line each: what the names' rules did, what only one side has, and what differs
  /// and was decided.
  std::vector<std::string> notes() const;
  const std::string& folder() const;
  std::int64_t step() const;
  int dp_size() const;
  /// Parameters of the run that the checkpoint lacks and that keep their initial values; only if not strict.
  std::vector<std::string> not_loaded() const;
  /// Parameters of the checkpoint, as the run would call them, that the run does not have; only if not
  /// strict.
  std::vector<std::string> left_behind() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::ckpt
