#include "core/zero1/loss_scaler.h"

#include <algorithm>

namespace zero1 {

namespace {
constexpr double growth_factor = 2;
constexpr double backoff_factor = 0.5;
}  // namespace

LossScaler::LossScaler(const LossScalerConfig& config)
    : config_(config),
      scale_(config.constant.value_or(config.initial_scale)),
      hysteresis_tracker_(config.hysteresis) {}

void LossScaler::update(bool found_non_finite) {
  if (config_.constant) return;
  if (found_non_finite) {
    growth_tracker_ = 0;
    if (--hysteresis_tracker_ <= 0) scale_ = std::max(scale_ * backoff_factor, config_.min_scale);
    return;
  }
  if (++growth_tracker_ == config_.growth_interval) {
    growth_tracker_ = 0;
    hysteresis_tracker_ = config_.hysteresis;
    scale_ *= growth_factor;
  }
}

}  // namespace zero1
