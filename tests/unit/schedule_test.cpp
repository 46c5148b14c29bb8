// The learning rate by iteration, by hand.
#include <doctest/doctest.h>

#include "core/train/schedule.h"

using namespace zero1;

TEST_CASE("a constant rate is constant") {
  LearningRateConfig config;
  config.lr = 3e-3;
  config.decay_iters = 10;
  for (const int i : {1, 2, 10, 11, 1000}) CHECK(learning_rate(config, i - 1) == 3e-3);
}

TEST_CASE("warm-up rises linearly from zero, the first iteration at zero") {
  LearningRateConfig config;
  config.lr = 1;
  config.warmup_iters = 4;
  config.decay_iters = 14;
  const double expected[] = {0, 0.25, 0.5, 0.75, 1, 1};
  for (int i = 0; i < 6; ++i) CHECK(learning_rate(config, i) == doctest::Approx(expected[i]));
}

TEST_CASE("linear and cosine decay reach min_lr at decay_iters and stay there") {
  LearningRateConfig config;
  config.lr = 1;
  config.min_lr = 0.1;
  config.warmup_iters = 2;
  config.decay_iters = 12;
  config.style = LrDecayStyle::linear;
  CHECK(learning_rate(config, 2) == doctest::Approx(1));
  CHECK(learning_rate(config, 7) == doctest::Approx(0.55));
  CHECK(learning_rate(config, 12) == doctest::Approx(0.1));
  CHECK(learning_rate(config, 98) == doctest::Approx(0.1));
  config.style = LrDecayStyle::cosine;
  CHECK(learning_rate(config, 2) == doctest::Approx(1));
  CHECK(learning_rate(config, 7) == doctest::Approx(0.55));
  CHECK(learning_rate(config, 4) == doctest::Approx(0.1 + 0.9 * 0.904508497));
  CHECK(learning_rate(config, 12) == doctest::Approx(0.1));
  CHECK(learning_rate(config, 98) == doctest::Approx(0.1));
}

TEST_CASE("the inverse square root is lr where the warm-up ends, and never below min_lr") {
  LearningRateConfig config;
  config.lr = 1;
  config.min_lr = 0.25;
  config.warmup_iters = 4;
  config.decay_iters = 100;
  config.style = LrDecayStyle::inverse_square_root;
  CHECK(learning_rate(config, 2) == doctest::Approx(0.5));
  CHECK(learning_rate(config, 4) == doctest::Approx(1));
  CHECK(learning_rate(config, 9) == doctest::Approx(2.0 / 3));
  CHECK(learning_rate(config, 16) == doctest::Approx(0.5));
  CHECK(learning_rate(config, 99) == doctest::Approx(0.25));
  CHECK(learning_rate(config, 101) == doctest::Approx(0.25));
  config.warmup_iters = 0;
  CHECK(learning_rate(config, 0) == doctest::Approx(1));
  CHECK(learning_rate(config, 1) == doctest::Approx(1));
  CHECK(learning_rate(config, 4) == doctest::Approx(0.5));
}

TEST_CASE("WSD warms up, is stable, and decays in its last iterations") {
  LearningRateConfig config;
  config.lr = 1;
  config.min_lr = 0.2;
  config.warmup_iters = 2;
  config.decay_iters = 20;
  config.wsd_decay_iters = 8;
  config.style = LrDecayStyle::wsd;
  struct Style {
    WsdDecayStyle style;
    double quarter, half;  ///< what is left of lr - min_lr there
  };
  for (const Style& each : {Style{WsdDecayStyle::linear, 0.75, 0.5},
                            {WsdDecayStyle::cosine, 0.853553391, 0.5},
                            {WsdDecayStyle::exponential, 0.681792831, 0.414213562},
                            {WsdDecayStyle::minus_sqrt, 0.5, 0.292893219}}) {
    CAPTURE(name(each.style));
    config.wsd_style = each.style;
    CHECK(learning_rate(config, 1) == doctest::Approx(0.5));
    CHECK(learning_rate(config, 3) == 1);
    CHECK(learning_rate(config, 12) == 1);
    CHECK(learning_rate(config, 14) == doctest::Approx(0.2 + 0.8 * each.quarter));
    CHECK(learning_rate(config, 16) == doctest::Approx(0.2 + 0.8 * each.half));
    CHECK(learning_rate(config, 20) == doctest::Approx(0.2));
    CHECK(learning_rate(config, 99) == doctest::Approx(0.2));
  }
}

TEST_CASE("a share of an iteration moves the schedule by its share") {
  LearningRateConfig config;
  config.lr = 1;
  config.warmup_iters = 2;
  config.decay_iters = 4;
  config.style = LrDecayStyle::linear;
  CHECK(learning_rate(config, 0.5) == doctest::Approx(0.25));
  CHECK(learning_rate(config, 2.5) == doctest::Approx(0.75));
}

TEST_CASE("styles have names and names have styles") {
  for (const auto style : {LrDecayStyle::constant, LrDecayStyle::linear, LrDecayStyle::cosine,
                           LrDecayStyle::inverse_square_root, LrDecayStyle::wsd}) {
    CHECK(parse_lr_decay_style(name(style)) == style);
  }
  CHECK(parse_lr_decay_style("inverse-square-root") == LrDecayStyle::inverse_square_root);
  CHECK(parse_lr_decay_style("WSD") == LrDecayStyle::wsd);
  CHECK(!parse_lr_decay_style("polynomial"));
  for (const auto style : {WsdDecayStyle::exponential, WsdDecayStyle::linear, WsdDecayStyle::cosine,
                           WsdDecayStyle::minus_sqrt}) {
    CHECK(parse_wsd_decay_style(name(style)) == style);
  }
  CHECK(parse_wsd_decay_style("minus_sqrt") == WsdDecayStyle::minus_sqrt);
  CHECK(!parse_wsd_decay_style("constant"));
}
