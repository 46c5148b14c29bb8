// The folder of --save, as one run uses it: its lock, its links, and which checkpoints stay.
#pragma once

#include "ckpt/folder.h"
#include "ckpt/save_lock.h"
#include "ckpt/train_hooks.h"

namespace zero1::ckpt {

/// What a user should know of the hidden folders in a folder of checkpoints, with the command that removes
/// them; empty: there are none.
std::string leftover_note(const std::string& root);

/// Of --keep-last N stay: the N that this run has saved last, or, while there are fewer, the latest of those
/// in the folder that it goes on from; what it was loaded from; and what `latest` and `best` name. Of the
/// others, those are removed that the run has saved or goes on from. Nothing else is: steps beyond the one
/// where the run begins are another run's, and so is everything where it was loaded from elsewhere.
class SaveFolder {
 public:
  /// Makes the folder where it is missing, locks it and tries what a save needs (save_checks.h). Throws
  /// InputError; nothing is left behind then.
  SaveFolder(const SaveOptions& options, const TrainConfig& config);

  const std::vector<std::string>& notes() const { return notes_; }

  /// Publishes one step: its folder, `latest`, with options.best also `best`, and removes what does not stay.
  /// At a kill in between, every link names a whole checkpoint.
  void publish(PendingFolder& pending, const RunState& state);

  /// Lets other runs in.
  void release() { lock_.release(); }

 private:
  void note_what_is_there();
  bool holds(const std::optional<BestCheckpoint>& best) const;
  void prune();

  const SaveOptions options_;
  const std::string& root_ = options_.folder;
  MadeFolder made_;
  SaveLock lock_;
  std::vector<std::string> notes_;
  std::vector<std::int64_t> order_;  ///< what may be removed one day, in the order of writing
};

}  // namespace zero1::ckpt
