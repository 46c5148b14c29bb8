#include "core/train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace zero1 {

namespace {

constexpr std::array<std::string_view, 5> style_names{"constant", "linear", "cosine", "inverse-square-root",
                                                      "WSD"};
constexpr std::array<std::string_view, 4> wsd_style_names{"exponential", "linear", "cosine", "minus_sqrt"};

template <class Style, std::size_t count>
std::optional<Style> parse(const std::array<std::string_view, count>& names, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Style>(found - names.begin());
}

double cosine(double decayed) {
  return 0.5 * (std::cos(std::numbers::pi * decayed) + 1);
}

/// What is left of lr - min_lr, `decayed` of the way through WSD's decay.
double wsd_coefficient(WsdDecayStyle style, double decayed) {
  switch (style) {
    case WsdDecayStyle::exponential: return 2 * std::pow(0.5, decayed) - 1;
    case WsdDecayStyle::linear: return 1 - decayed;
    case WsdDecayStyle::cosine: return cosine(decayed);
    case WsdDecayStyle::minus_sqrt: return 1 - std::sqrt(decayed);
  }
  return 1;
}

/// What is left of lr - min_lr after `done` iterations, more than the warm-up and at most decay_iters.
double coefficient(const LearningRateConfig& config, double done) {
  const auto decay = static_cast<double>(config.decay_iters);
  if (config.style == LrDecayStyle::wsd) {
    const auto last = static_cast<double>(config.wsd_decay_iters);
    const double into_decay = done - (decay - last);
    return into_decay <= 0 ? 1 : wsd_coefficient(config.wsd_style, into_decay / last);
  }
  const auto warmup = static_cast<double>(config.warmup_iters);
  const double span = decay - warmup;
  const double decayed = span > 0 ? (done - warmup) / span : 1;
  return config.style == LrDecayStyle::linear ? 1 - decayed : cosine(decayed);
}

}  // namespace

std::string_view name(LrDecayStyle style) {
  return style_names[static_cast<std::size_t>(style)];
}

std::string_view name(WsdDecayStyle style) {
  return wsd_style_names[static_cast<std::size_t>(style)];
}

std::optional<LrDecayStyle> parse_lr_decay_style(std::string_view text) {
  return parse<LrDecayStyle>(style_names, text);
}

std::optional<WsdDecayStyle> parse_wsd_decay_style(std::string_view text) {
  return parse<WsdDecayStyle>(wsd_style_names, text);
}

double learning_rate(const LearningRateConfig& config, double done) {
  const auto warmup = static_cast<double>(config.warmup_iters);
  if (config.warmup_iters > 0 && done <= warmup) return config.lr * done / warmup;
  if (config.style == LrDecayStyle::constant) return config.lr;
  if (done > static_cast<double>(config.decay_iters)) return config.min_lr;
  if (config.style == LrDecayStyle::inverse_square_root) {
    const double rate = config.lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(done, 1.0));
    return std::max(config.min_lr, rate);
  }
  return config.min_lr + coefficient(config, done) * (config.lr - config.min_lr);
}

}  // namespace zero1
