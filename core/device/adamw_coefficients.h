// What AdamW multiplies by, computed once per call: the same numbers on every device.
#pragma once

#include <cmath>

#include "core/device/ops.h"

namespace zero1 {

/// torch.optim.AdamW's update, in its order of operations, with what does not change between elements
/// computed in fp64 once.
struct AdamWCoefficients {
  float decay, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inverse_sqrt_correction2, eps;

  explicit AdamWCoefficients(const AdamWArgs& args) {
    const auto steps = static_cast<double>(args.step);
    decay = static_cast<float>(1 - args.lr * args.weight_decay);
    beta1 = static_cast<float>(args.beta1);
    one_minus_beta1 = static_cast<float>(1 - args.beta1);
    beta2 = static_cast<float>(args.beta2);
    one_minus_beta2 = static_cast<float>(1 - args.beta2);
    step_size = static_cast<float>(args.lr / (1 - std::pow(args.beta1, steps)));
    inverse_sqrt_correction2 = static_cast<float>(1 / std::sqrt(1 - std::pow(args.beta2, steps)));
    eps = static_cast<float>(args.eps);
  }
};

}  // namespace zero1
