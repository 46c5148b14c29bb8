// A pre-LN GPT-2 with byte tokens and tied output embedding, exactly as tests/golden/README.md says.
#pragma once

#include <memory>

#include "core/model/model.h"

namespace zero1 {

struct GptConfig {
  std::int64_t vocab_size = 256;
  std::int64_t max_seq_len = 256;   ///< rows of wpe
  int num_layers = 4;
  std::int64_t hidden_size = 128;
  int num_heads = 4;
  DType param_dtype = DType::fp32;  ///< of parameters and activations; matrix products accumulate in fp32
};

/// Parameters in model order: wte.weight, wpe.weight, h.N.{ln_1, attn.c_attn, attn.c_proj, ln_2,
/// mlp.c_fc, mlp.c_proj}.{weight, bias}, ln_f.{weight, bias}. Throws InputError when hidden_size is not
/// divisible by num_heads or a size is not positive.
std::unique_ptr<Model> make_gpt(const GptConfig& config);

}  // namespace zero1
