// Which token comes next, by the model's logits.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/base/random.h"

namespace zero1 {

struct SamplingConfig {
  double temperature = 1;  ///< divides the logits; 0: the likeliest token, always
  std::int64_t top_k = 0;  ///< only so many of the likeliest; 0: all
  std::uint64_t seed = 1234;
};

/// Draws tokens, a function of the configuration and of the logits of all calls so far.
class Sampler {
 public:
  explicit Sampler(const SamplingConfig& config) : config_(config), random_(config.seed) {}

  /// An index into `logits`. Of equal logits the first counts as the likelier. Throws Error where one is not
  /// finite.
  std::int32_t next(std::span<const float> logits);

 private:
  SamplingConfig config_;
  RandomStream random_;
  std::vector<std::pair<float, std::int32_t>> candidates_;
};

}  // namespace zero1
