// The learning rate of an iteration. Megatron: `OptimizerParamScheduler` in optimizer_param_scheduler.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zero1 {

enum class LrDecayStyle : std::uint8_t { constant, linear, cosine, inverse_square_root, wsd };
/// How WSD (warm-up, stable, decay) decays in its last iterations.
enum class WsdDecayStyle : std::uint8_t { exponential, linear, cosine, minus_sqrt };

std::string_view name(LrDecayStyle style);
std::string_view name(WsdDecayStyle style);
std::optional<LrDecayStyle> parse_lr_decay_style(std::string_view text);
std::optional<WsdDecayStyle> parse_wsd_decay_style(std::string_view text);

struct LearningRateConfig {
  double lr = 5e-4;
  double min_lr = 0;
  std::int64_t warmup_iters = 0;  ///< linear from 0 up to lr
  std::int64_t decay_iters = 0;   ///< min_lr is reached here and kept; 0: what the run trains
  LrDecayStyle style = LrDecayStyle::constant;
  WsdDecayStyle wsd_style = WsdDecayStyle::exponential;
  std::int64_t wsd_decay_iters = 0;  ///< WSD: the last of decay_iters, in which it decays
};

/// The rate after `done` iterations: those that updated the parameters, since a skipped one does not move the
/// schedule; one with a smaller batch than the full one (batch_rampup.h) counts by its share. As in Megatron
/// the first iteration of a warm-up runs at 0, and the inverse square root is lr where the warm-up ends.
double learning_rate(const LearningRateConfig& config, double done);

}  // namespace zero1
