// A pre-LN GPT-2 with tied output embedding, exactly as tests/golden/README.md says.
#pragma once

#include <memory>

#include "core/model/model.h"

namespace zero1 {

struct GptConfig {
  std::int64_t vocab_size = 256;
  std::int64_t max_seq_len = 256;  ///< rows of wpe
  int num_layers = 4;
  std::int64_t hidden_size = 128;
  int num_heads = 4;
  DType param_dtype = DType::fp32;  ///< of parameters and activations; matrix products accumulate in fp32
};

/// Parameters in model order: wte.weight, wpe.weight, h.N.{ln_1, attn.c_attn, attn.c_proj, ln_2,
/// mlp.c_fc, mlp.c_proj}.{weight, bias}, ln_f.{weight, bias}. Layers: embedding, h.N, ln_f, head.
/// Tokens and targets must be below vocab_size, sequences at most max_seq_len long.
/// Initial values as GPT-2: normal of standard deviation 0.02, divided by sqrt(2 · num_layers) for the
/// two projections that add to the residual; norms 1, biases 0.
/// Throws InputError naming the field when hidden_size is not divisible by num_heads, a size is not
/// positive or too large, or param_dtype is fp64. The memory that the model is bound to and its device
/// must outlive it.
std::unique_ptr<Model> make_gpt(const GptConfig& config);

}  // namespace zero1
