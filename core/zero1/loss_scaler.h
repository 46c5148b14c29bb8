// Keeps fp16 gradients inside fp16's range. Megatron: `ConstantGradScaler`, `DynamicGradScaler` in
// megatron/core/optimizer/grad_scaler.py.
#pragma once

#include <optional>
#include <string>

namespace zero1 {

struct LossScalerConfig {
  std::optional<double> constant;       ///< a fixed scale; unset: dynamic
  double initial_scale = 4294967296.0;  ///< 2^32
  double min_scale = 1;
  int growth_interval = 1000;  ///< steps without overflow after which the scale doubles
  int hysteresis = 2;          ///< overflows in a row of an interval before it halves
};

/// As people write loss scales: "2^32" for a large power of two, else a number.
std::string format_loss_scale(double scale);

/// The scale that the loss is multiplied by before backward. Every rank feeds it the same outcomes, so
/// that every rank holds the same scale without communication.
class LossScaler {
 public:
  explicit LossScaler(const LossScalerConfig& config);

  /// What changes from step to step, for checkpoints.
  struct State {
    double scale = 1;
    int growth_tracker = 0;
    int hysteresis_tracker = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  /// Continues from a state that another run has reached. A constant scale stays as configured.
  void restore(const State& state);

  /// One step's outcome, agreed by all ranks.
  void update(bool found_non_finite);

 private:
  LossScalerConfig config_;
  State state_;
};

}  // namespace zero1
