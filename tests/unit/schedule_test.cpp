// The learning rate by iteration, by hand.
#include <doctest/doctest.h>

#include "core/train/schedule.h"

using namespace zero1;

TEST_CASE("a constant rate is constant") {
  LearningRateConfig config;
  config.lr = 3e-3;
  config.decay_iters = 10;
  for (const int i : {1, 2, 10, 11, 1000}) CHECK(learning_rate(config, i) == 3e-3);
}

TEST_CASE("warm-up rises linearly from zero, the first iteration at zero") {
  LearningRateConfig config;
  config.lr = 1;
  config.warmup_iters = 4;
  config.decay_iters = 14;
  const double expected[] = {0, 0.25, 0.5, 0.75, 1, 1};
  for (int i = 0; i < 6; ++i) CHECK(learning_rate(config, i + 1) == doctest::Approx(expected[i]));
}

TEST_CASE("linear and cosine decay reach min_lr at decay_iters and stay there") {
  LearningRateConfig config;
  config.lr = 1;
  config.min_lr = 0.1;
  config.warmup_iters = 2;
  config.decay_iters = 12;
  config.style = LrDecayStyle::linear;
  CHECK(learning_rate(config, 3) == doctest::Approx(1));
  CHECK(learning_rate(config, 8) == doctest::Approx(0.55));
  CHECK(learning_rate(config, 13) == doctest::Approx(0.1));
  CHECK(learning_rate(config, 99) == doctest::Approx(0.1));
  config.style = LrDecayStyle::cosine;
  CHECK(learning_rate(config, 3) == doctest::Approx(1));
  CHECK(learning_rate(config, 8) == doctest::Approx(0.55));
  CHECK(learning_rate(config, 5) == doctest::Approx(0.1 + 0.9 * 0.904508497));
  CHECK(learning_rate(config, 13) == doctest::Approx(0.1));
  CHECK(learning_rate(config, 99) == doctest::Approx(0.1));
}

TEST_CASE("styles have names and names have styles") {
  for (const auto style : {LrDecayStyle::constant, LrDecayStyle::linear, LrDecayStyle::cosine}) {
    CHECK(parse_lr_decay_style(name(style)) == style);
  }
  CHECK(!parse_lr_decay_style("polynomial"));
}
