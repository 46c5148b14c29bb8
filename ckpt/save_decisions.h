// Which steps of a run are saved, and which of them is the best.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "ckpt/train_hooks.h"

namespace zero1::ckpt {

struct SaveDecision {
  std::int64_t step = 0;
  bool save = false;
  bool requested = false;              ///< asked for, beside the planned ones
  std::optional<double> valid_loss;    ///< where it is known after this step, and finite
  std::optional<BestCheckpoint> best;  ///< up to this step
};

/// All ranks ask after every step, at any time before they begin the next; the first decides for all. (No
/// rank completes a step before every other has begun it.) Thread-safe.
class SaveDecisions {
 public:
  explicit SaveDecisions(const SaveOptions& options);

  SaveDecision after(std::int64_t step, std::optional<double> valid_loss);
  /// When the run has ended after `step`: what `after` has not saved is saved now.
  SaveDecision after_last(std::int64_t step, std::optional<double> valid_loss);

 private:
  void decide(std::int64_t step, std::optional<double> valid_loss);

  const SaveOptions& options_;
  std::mutex mutex_;
  SaveDecision decision_;
};

}  // namespace zero1::ckpt
