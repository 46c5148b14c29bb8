// The smallest example of a Model: predicts the next byte from the last `context` bytes.
#pragma once

#include <memory>

#include "core/model/model.h"

namespace zero1 {

struct MlpConfig {
  std::int64_t vocab_size = 256;
  std::int64_t hidden_size = 64;
  int num_layers = 2;               ///< hidden layers
  DType param_dtype = DType::fp32;
};

std::unique_ptr<Model> make_mlp(const MlpConfig& config);

}  // namespace zero1
