// The learning rate of an iteration. Megatron: `OptimizerParamScheduler` in optimizer_param_scheduler.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zero1 {

enum class LrDecayStyle : std::uint8_t { constant, linear, cosine };

std::string_view name(LrDecayStyle style);
std::optional<LrDecayStyle> parse_lr_decay_style(std::string_view text);

struct LearningRateConfig {
  double lr = 5e-4;
  double min_lr = 0;
  std::int64_t warmup_iters = 0;  ///< linear from 0 up to lr
  std::int64_t decay_iters = 0;   ///< min_lr is reached here and kept; 0: the run's iterations
  LrDecayStyle style = LrDecayStyle::constant;
};

/// The rate of iteration `iteration` (1 is the first). As in Megatron the rate is a function of the
/// iterations completed before: the first iteration of a warm-up runs at 0.
double learning_rate(const LearningRateConfig& config, std::int64_t iteration);

}  // namespace zero1
