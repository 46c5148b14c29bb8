#include "core/train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace zero1 {

namespace {
constexpr std::array<std::string_view, 3> style_names{"constant", "linear", "cosine"};
}

std::string_view name(LrDecayStyle style) {
  return style_names[static_cast<std::size_t>(style)];
}

std::optional<LrDecayStyle> parse_lr_decay_style(std::string_view text) {
  const auto found = std::find(style_names.begin(), style_names.end(), text);
  if (found == style_names.end()) return std::nullopt;
  return static_cast<LrDecayStyle>(found - style_names.begin());
}

double learning_rate(const LearningRateConfig& config, std::int64_t iteration) {
  const auto done = static_cast<double>(iteration - 1);
  const auto warmup = static_cast<double>(config.warmup_iters);
  if (config.warmup_iters > 0 && done <= warmup) return config.lr * done / warmup;
  if (config.style == LrDecayStyle::constant) return config.lr;
  if (done > static_cast<double>(config.decay_iters)) return config.min_lr;
  const double span = static_cast<double>(config.decay_iters) - warmup;
  const double decayed = span > 0 ? (done - warmup) / span : 1;
  const double coefficient =
      config.style == LrDecayStyle::linear ? 1 - decayed : 0.5 * (std::cos(std::numbers::pi * decayed) + 1);
  return config.min_lr + coefficient * (config.lr - config.min_lr);
}

}  // namespace zero1
