// One transformer block of the GPT: what forward keeps, forward, and backward, to be read side by side.
//
//   x ── ln_1 ── c_attn ── attention ── c_proj ── + ── x_mid ── ln_2 ── c_fc ── gelu ── c_proj ── + ── x_out
//   └─────────────────────────────────────────────┘     └──────────────────────────────────────────┘
#pragma once

#include <cstdint>

#include "core/model/model_context.h"

namespace zero1 {

/// The parameters of a block, as offsets from its first one; model order.
enum BlockParam : int {
  ln_1_weight,         // [C]
  ln_1_bias,           // [C]
  attn_c_attn_weight,  // [3C, C]: q, k, v stacked on the output axis
  attn_c_attn_bias,    // [3C]
  attn_c_proj_weight,  // [C, C]
  attn_c_proj_bias,    // [C]
  ln_2_weight,         // [C]
  ln_2_bias,           // [C]
  mlp_c_fc_weight,     // [4C, C]
  mlp_c_fc_bias,       // [4C]
  mlp_c_proj_weight,   // [C, 4C]
  mlp_c_proj_bias,     // [C]
  block_param_count,
};

/// B sequences of T tokens, C channels in H heads.
struct GptShape {
  std::int64_t batch = 0;
  std::int64_t seq_len = 0;
  std::int64_t channels = 0;
  std::int64_t heads = 0;
  DType dtype = DType::fp32;  ///< of parameters and activations

  std::int64_t tokens() const { return batch * seq_len; }  ///< N
  AttentionShape attention() const { return {batch, seq_len, heads, channels / heads}; }
};

/// The output of a LayerNorm and what its backward needs beside the input.
struct NormActivations {
  Activation out;         // [N, C]
  Activation mean, rstd;  // [N], fp32
};

/// Everything a block's backward needs, in the order in which forward produces it.
struct BlockActivations {
  Activation x;  // [N, C], the block's input
  NormActivations ln_1;
  Activation qkv;       // [N, 3C]
  Activation probs;     // [B, H, T, T]
  Activation attended;  // [N, C], the heads side by side
  Activation x_mid;     // [N, C], x plus the attention branch
  NormActivations ln_2;
  Activation fc;    // [N, 4C], before the GELU
  Activation gelu;  // [N, 4C]
};

NormActivations forward_norm(const ModelContext& context, const GptShape& shape, int weight, int bias,
                             ConstTensorView x);

/// Runs the block on `saved.x` and fills the rest of `saved`. Returns the block's output, [N, C].
/// `first`: index of the block's first parameter.
Activation forward_block(const ModelContext& context, const GptShape& shape, int first,
                         BlockActivations& saved);

/// Turns `d_x` [N, C] from the gradient of the block's output into that of its input, in place. Adds
/// into every main_grad and tells the hooks of each at once; frees `saved` as it is used up.
void backward_block(const ModelContext& context, const GptShape& shape, int first, BlockActivations& saved,
                    TensorView d_x, ModelHooks& hooks);

/// The LayerNorm epsilon of GPT-2.
inline constexpr float gpt_norm_eps = 1e-5F;

}  // namespace zero1
