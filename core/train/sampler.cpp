#include "core/train/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace zero1 {
namespace {

std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

std::int32_t Sampler::next(std::span<const float> logits) {
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (!std::isfinite(logits[token])) {
      throw Error(fmt::format(
          "the model's logit of token {} is {}: its parameters are damaged, or its training failed", token,
          logits[token]));
    }
  }
  if (config_.temperature == 0 || config_.top_k == 1) return likeliest(logits);

  candidates_.clear();
  for (std::size_t token = 0; token < logits.size(); ++token)
    candidates_.emplace_back(logits[token], static_cast<std::int32_t>(token));
  if (config_.top_k > 0 && config_.top_k < static_cast<std::int64_t>(candidates_.size())) {
    const auto end = candidates_.begin() + config_.top_k;
    std::partial_sort(candidates_.begin(), end, candidates_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    candidates_.erase(end, candidates_.end());
  }
  const double largest = logits[static_cast<std::size_t>(likeliest(logits))];
  const auto weight = [&](float logit) { return std::exp((logit - largest) / config_.temperature); };
  double sum = 0;
  for (const auto& [logit, token] : candidates_) sum += weight(logit);
  double left = random_.uniform() * sum;
  for (const auto& [logit, token] : candidates_) {
    left -= weight(logit);
    if (left < 0) return token;
  }
  return likeliest(logits);  // rounding has left a crumb
}

}  // namespace zero1
