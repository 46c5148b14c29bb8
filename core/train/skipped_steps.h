// Counts the steps that were skipped for non-finite gradients, and ends a run that does nothing else.
#pragma once

#include <cstdint>

#include "core/train/config.h"

namespace zero1 {

/// One per rank; every rank feeds it the same outcomes. A skip is what dynamic loss scaling searches with,
/// and what --no-check-for-nan-in-loss-and-grad asks for; where it is no way out it must not go on forever.
class SkippedSteps {
 public:
  explicit SkippedSteps(const TrainConfig& config) : config_(config) {}

  /// One step's outcome, and the loss scale that it ran with (1 without). Throws Error when the last
  /// most_in_a_row steps were all skipped and no lower loss scale was left to try.
  void add(std::int64_t iteration, bool skipped, double loss_scale);

  /// After the run's last step. Throws Error where every step was skipped, so that nothing was trained.
  void check_end() const;

  std::int64_t count() const { return skipped_; }

  static constexpr int most_in_a_row = 10;

 private:
  bool scales_dynamically() const;

  const TrainConfig& config_;
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;
  int in_a_row_ = 0;  ///< without a lower scale to try
  double last_scale_ = 1;
};

}  // namespace zero1
