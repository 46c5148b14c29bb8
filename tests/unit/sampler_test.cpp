#include "core/train/sampler.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "tests/support/message.h"

using namespace zero1;

namespace {

std::vector<int> counts(const SamplingConfig& config, const std::vector<float>& logits, int draws) {
  Sampler sampler(config);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(sampler.next(logits))];
  return counts;
}

}  // namespace

TEST_CASE("tokens come as often as the softmax of logits over temperature says") {
  const std::vector<float> logits{1, -2, 0, 3, 3};
  constexpr int draws = 200'000;
  for (const double temperature : {0.5, 1.0, 4.0}) {
    CAPTURE(temperature);
    const std::vector<int> found = counts({.temperature = temperature, .seed = 3}, logits, draws);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double expected = std::exp(logits[i] / temperature) / sum;
      CHECK(std::abs(found[i] / static_cast<double>(draws) - expected) < 0.005);  // four standard deviations
    }
  }
}

TEST_CASE("top-k draws among k, of equal logits the first ones") {
  const std::vector<float> logits{1, 2, 0, 2, 2};
  const std::vector<int> two = counts({.top_k = 2}, logits, 1000);
  CHECK(two[1] > 400);
  CHECK(two[3] > 400);
  CHECK(two[1] + two[3] == 1000);
  CHECK(counts({.top_k = 5}, logits, 1000) == counts({}, logits, 1000));
  CHECK(counts({.top_k = 99}, logits, 1000) == counts({}, logits, 1000));
}

TEST_CASE("temperature 0 and top-k 1 take the first of the likeliest; tiny temperatures come near") {
  const std::vector<float> logits{1, 2, 0, 2, -5};
  CHECK(counts({.temperature = 0}, logits, 50)[1] == 50);
  CHECK(counts({.temperature = 9, .top_k = 1}, logits, 50)[1] == 50);
  const std::vector<int> cold = counts({.temperature = 1e-300}, logits, 50);
  CHECK(cold[1] + cold[3] == 50);
}

TEST_CASE("a seed is a sequence") {
  std::vector<float> flat(100, 0.0F);
  Sampler a({.seed = 7}), b({.seed = 7}), c({.seed = 8});
  int differ = 0;
  for (int i = 0; i < 50; ++i) {
    const std::int32_t token = a.next(flat);
    CHECK(token == b.next(flat));
    differ += token != c.next(flat) ? 1 : 0;
  }
  CHECK(differ > 30);
}

TEST_CASE("logits that are no numbers are an error") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::array<float, 3> logits{0, bad, 0};
    for (const double temperature : {0.0, 1.0}) {
      Sampler sampler({.temperature = temperature});
      CHECK(test::contains(test::message_of<Error>([&] { sampler.next(logits); }), "token 1"));
    }
  }
}
