// Megatron's rules for the loss scale: hysteresis before it halves, a quiet interval before it doubles.
#include <doctest/doctest.h>

#include "core/zero1/loss_scaler.h"

using namespace zero1;

TEST_CASE("a constant scale never moves") {
  LossScalerConfig config;
  config.constant = 128;
  LossScaler scaler(config);
  for (int i = 0; i < 10; ++i) scaler.update(i % 2 == 0);
  CHECK(scaler.scale() == 128);
}

TEST_CASE("a dynamic scale halves after `hysteresis` overflows and doubles after a quiet interval") {
  LossScalerConfig config;
  config.initial_scale = 1024;
  config.growth_interval = 3;
  config.hysteresis = 2;
  config.min_scale = 256;
  LossScaler scaler(config);
  scaler.update(true);
  CHECK(scaler.scale() == 1024);
  scaler.update(true);
  CHECK(scaler.scale() == 512);
  scaler.update(true);  // no hysteresis is left until the scale has grown
  CHECK(scaler.scale() == 256);
  scaler.update(true);
  CHECK(scaler.scale() == 256);  // never below the minimum
  scaler.update(false);
  scaler.update(false);
  CHECK(scaler.scale() == 256);
  scaler.update(false);
  CHECK(scaler.scale() == 512);
  scaler.update(true);
  CHECK(scaler.scale() == 512);  // the hysteresis is full again
}
