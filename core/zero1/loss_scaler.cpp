#include "core/zero1/loss_scaler.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace zero1 {

namespace {
constexpr double growth_factor = 2;
constexpr double backoff_factor = 0.5;
}  // namespace

std::string format_loss_scale(double scale) {
  int exponent = 0;
  const bool power = std::frexp(scale, &exponent) == 0.5;
  return power && scale >= 1024 ? fmt::format("2^{}", exponent - 1) : fmt::format("{}", scale);
}

LossScaler::LossScaler(const LossScalerConfig& config)
    : config_(config), state_{config.constant.value_or(config.initial_scale), 0, config.hysteresis} {}

void LossScaler::restore(const State& state) {
  if (!config_.constant) state_ = state;
}

void LossScaler::update(bool found_non_finite) {
  if (config_.constant) return;
  if (found_non_finite) {
    state_.growth_tracker = 0;
    if (--state_.hysteresis_tracker <= 0)
      state_.scale = std::max(state_.scale * backoff_factor, config_.min_scale);
    return;
  }
  if (++state_.growth_tracker == config_.growth_interval) {
    state_.growth_tracker = 0;
    state_.hysteresis_tracker = config_.hysteresis;
    state_.scale *= growth_factor;
  }
}

}  // namespace zero1
