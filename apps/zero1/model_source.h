// A trained model out of a checkpoint or a .safetensors file, with what it takes to run it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/train/config.h"

namespace zero1::app {

/// What flags say of the model; where the source says something else, that is refused.
struct ModelFlags {
  std::optional<std::int64_t> step;  ///< of a folder of checkpoints, which; the latest without
  std::optional<int> num_attention_heads;
  std::optional<std::int64_t> seq_length;  ///< may be shorter or longer than in training
  std::optional<std::int64_t> vocab_size;
};

struct ModelSource {
  TrainConfig config;               ///< its model part: for make_model, in fp32
  std::int64_t vocab_size = 0;      ///< tokens; config.vocab_size counts rows, with padding
  std::int64_t context_tokens = 0;  ///< the longest sequence that it is to see
  /// Writes one parameter's values; `param` as in make_model(config).
  std::function<void(int param, std::span<float> values)> read;
};

/// Sizes come from the parameters' shapes; heads, sequence length and vocabulary from the configuration that
/// is stored with them (a checkpoint's; metadata `zero1_state` or `zero1_model` of a .safetensors file), else
/// from flags. Optimizer states in the file are passed over. Throws InputError that names the source, every
/// parameter that does not fit, or the flag that is missing.
ModelSource open_model(const std::string& source, const ModelFlags& flags);

}  // namespace zero1::app
