#include "core/train/skipped_steps.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/units.h"

namespace zero1 {

bool SkippedSteps::scales_dynamically() const {
  return config_.param_dtype == DType::fp16 && !config_.loss_scale.constant;
}

void SkippedSteps::add(std::int64_t iteration, bool skipped, double loss_scale) {
  ++steps_;
  skipped_ += skipped ? 1 : 0;
  last_scale_ = loss_scale;
  const bool may_still_fall = scales_dynamically() && loss_scale > config_.loss_scale.min_scale;
  in_a_row_ = skipped && !may_still_fall ? in_a_row_ + 1 : 0;
  if (in_a_row_ < most_in_a_row) return;
  if (scales_dynamically()) {
    throw Error(fmt::format(
        "step {}: the last {} steps were all skipped at the smallest loss scale, {} (--min-loss-scale): no "
        "loss scale mends these NaN or infinite gradients. Look at the weights and the data, lower --lr, or "
        "train with --bf16",
        iteration, in_a_row_, format_loss_scale(loss_scale)));
  }
  throw Error(fmt::format(
      "step {}: the last {} steps were all skipped for NaN or infinite gradients: this run trains "
      "nothing. Look at the weights and the data, or lower --lr; with "
      "--check-for-nan-in-loss-and-grad the first such gradient is named",
      iteration, in_a_row_));
}

void SkippedSteps::check_end() const {
  if (steps_ == 0 || skipped_ < steps_) return;
  const std::string all = steps_ == 1
                              ? "the only step of this run was skipped"
                              : fmt::format("all {} steps of this run were skipped", format_count(steps_));
  if (scales_dynamically()) {
    throw Error(fmt::format(
        "{}, the last at loss scale {}: gradients overflowed, nothing was trained, nothing is saved. "
        "Begin nearer to the right scale with --initial-loss-scale, or give the search more "
        "--train-iters",
        all, format_loss_scale(last_scale_)));
  }
  throw Error(fmt::format(
      "{} for NaN or infinite gradients: nothing was trained, nothing is saved. Look at the weights "
      "and the data, or lower --lr; with --check-for-nan-in-loss-and-grad the first such gradient "
      "is named",
      all));
}

}  // namespace zero1
