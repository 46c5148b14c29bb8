// Keeps fp16 gradients inside fp16's range. Megatron: `ConstantGradScaler`, `DynamicGradScaler` in
// megatron/core/optimizer/grad_scaler.py.
#pragma once

#include <optional>

namespace zero1 {

struct LossScalerConfig {
  std::optional<double> constant;       ///< a fixed scale; unset: dynamic
  double initial_scale = 4294967296.0;  ///< 2^32
  double min_scale = 1;
  int growth_interval = 1000;  ///< steps without overflow after which the scale doubles
  int hysteresis = 2;          ///< overflows in a row of an interval before it halves
};

/// The scale that the loss is multiplied by before backward. Every rank feeds it the same outcomes, so
/// that every rank holds the same scale without communication.
class LossScaler {
 public:
  explicit LossScaler(const LossScalerConfig& config);

  double scale() const { return scale_; }

  /// One step's outcome, agreed by all ranks.
  void update(bool found_non_finite);

 private:
  LossScalerConfig config_;
  double scale_;
  int growth_tracker_ = 0;
  int hysteresis_tracker_;
};

}  // namespace zero1
