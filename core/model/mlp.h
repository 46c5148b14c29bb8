// The smallest example of a Model; copy it to bring your own.
#pragma once

#include <memory>

#include "core/model/model.h"

namespace zero1 {

struct MlpConfig {
  std::int64_t vocab_size = 256;
  std::int64_t hidden_size = 64;
  int num_layers = 2;  ///< hidden layers
  DType param_dtype = DType::fp32;
};

/// Predicts the next byte from the current one alone: an embedding, hidden layers with ReLU, and a
/// softmax over the bytes. Every token is an example of its own, so sequences may have any length.
/// Parameters in model order: embed.{weight, bias}, hidden.N.{weight, bias}, head.{weight, bias}.
/// Throws InputError naming the field when a size is not positive or too large, or for fp64.
std::unique_ptr<Model> make_mlp(const MlpConfig& config);

}  // namespace zero1
