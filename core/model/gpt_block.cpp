#include "core/model/gpt_block.h"

namespace zero1 {

NormActivations forward_norm(const ModelContext& context, const GptShape& shape, int weight, int bias,
                             ConstTensorView x) {
  const std::int64_t rows = shape.tokens();
  NormActivations norm{context.allocate(shape.dtype, rows * shape.channels),
                       context.allocate(DType::fp32, rows), context.allocate(DType::fp32, rows)};
  context.ops().layernorm_forward(*context.stream, norm.out, norm.mean, norm.rstd, x, context.param(weight),
                                  context.param(bias), rows, shape.channels, gpt_norm_eps);
  return norm;
}

Activation forward_block(const ModelContext& context, const GptShape& shape, int first,
                         BlockActivations& saved) {
  Ops& ops = context.ops();
  Stream& stream = *context.stream;
  const std::int64_t N = shape.tokens();
  const std::int64_t C = shape.channels;
  const auto allocate = [&](std::int64_t numel) { return context.allocate(shape.dtype, numel); };

  // Attention branch.
  saved.ln_1 = forward_norm(context, shape, first + ln_1_weight, first + ln_1_bias, saved.x);
  saved.qkv = allocate(N * 3 * C);
  linear_forward(context, saved.qkv, saved.ln_1.out, first + attn_c_attn_weight, {N, C, 3 * C});
  ops.add_bias(stream, saved.qkv, context.param(first + attn_c_attn_bias), N, 3 * C);
  saved.probs = allocate(shape.batch * shape.heads * shape.seq_len * shape.seq_len);
  saved.attended = allocate(N * C);
  ops.attention_forward(stream, saved.attended, saved.probs, saved.qkv, shape.attention());

  // The residual is added to the branch, not the branch to the residual: x itself is kept for ln_1's
  // backward, and no copy of it is made.
  saved.x_mid = allocate(N * C);
  linear_forward(context, saved.x_mid, saved.attended, first + attn_c_proj_weight, {N, C, C});
  ops.add_bias_residual(stream, saved.x_mid, saved.x, context.param(first + attn_c_proj_bias), N, C);

  // MLP branch.
  saved.ln_2 = forward_norm(context, shape, first + ln_2_weight, first + ln_2_bias, saved.x_mid);
  saved.fc = allocate(N * 4 * C);
  saved.gelu = allocate(N * 4 * C);
  linear_forward(context, saved.fc, saved.ln_2.out, first + mlp_c_fc_weight, {N, C, 4 * C});
  ops.bias_gelu_forward(stream, saved.gelu, saved.fc, saved.fc, context.param(first + mlp_c_fc_bias), N,
                        4 * C);
  Activation x_out = allocate(N * C);
  linear_forward(context, x_out, saved.gelu, first + mlp_c_proj_weight, {N, 4 * C, C});
  ops.add_bias_residual(stream, x_out, saved.x_mid, context.param(first + mlp_c_proj_bias), N, C);
  return x_out;
}

namespace {

/// The parameters' side of a linear layer's backward: bias, then weight, each reported at once.
void backward_linear_params(const ModelContext& context, int weight, int bias, ConstTensorView d_y,
                            ConstTensorView x, const LinearShape& shape, ModelHooks& hooks) {
  context.ops().bias_backward(*context.stream, context.main_grad(bias), d_y, shape.rows, shape.out);
  hooks.grad_ready(bias);
  linear_backward_weight(context, weight, d_y, x, shape, hooks);
  hooks.grad_ready(weight);
}

/// d_x += the gradient through the norm. d_x holds the gradient of the branch that went around it.
void backward_norm(const ModelContext& context, const GptShape& shape, int weight, int bias, TensorView d_x,
                   ConstTensorView d_out, ConstTensorView x, const NormActivations& norm, ModelHooks& hooks) {
  context.ops().layernorm_backward(*context.stream, d_x, context.main_grad(weight), context.main_grad(bias),
                                   d_out, d_x, x, context.param(weight), norm.mean, norm.rstd, shape.tokens(),
                                   shape.channels);
  hooks.grad_ready(bias);
  hooks.grad_ready(weight);
}

}  // namespace

// Once a weight's gradient is queued, the layer's saved input has had its last reader: the input's
// gradient, which has the same shape, is written over it.
void backward_block(const ModelContext& context, const GptShape& shape, int first, BlockActivations& saved,
                    TensorView d_x, ModelHooks& hooks) {
  Ops& ops = context.ops();
  Stream& stream = *context.stream;
  const std::int64_t N = shape.tokens();
  const std::int64_t C = shape.channels;

  // MLP branch. d_x is the gradient of x_out, and of x_mid around the branch.
  const LinearShape proj{N, 4 * C, C};
  backward_linear_params(context, first + mlp_c_proj_weight, first + mlp_c_proj_bias, d_x, saved.gelu, proj,
                         hooks);
  Activation d_fc = std::move(saved.gelu);
  linear_backward_input(context, d_fc, d_x, first + mlp_c_proj_weight, proj);
  ops.gelu_backward(stream, d_fc, d_fc, saved.fc);
  saved.fc.free();

  const LinearShape fc{N, C, 4 * C};
  backward_linear_params(context, first + mlp_c_fc_weight, first + mlp_c_fc_bias, d_fc, saved.ln_2.out, fc,
                         hooks);
  linear_backward_input(context, saved.ln_2.out, d_fc, first + mlp_c_fc_weight, fc);
  d_fc.free();
  backward_norm(context, shape, first + ln_2_weight, first + ln_2_bias, d_x, saved.ln_2.out, saved.x_mid,
                saved.ln_2, hooks);
  saved.ln_2 = {};
  saved.x_mid.free();

  // Attention branch. d_x is now the gradient of x_mid, and of x around the branch.
  const LinearShape attn_proj{N, C, C};
  backward_linear_params(context, first + attn_c_proj_weight, first + attn_c_proj_bias, d_x, saved.attended,
                         attn_proj, hooks);
  Activation d_attended = std::move(saved.attended);
  linear_backward_input(context, d_attended, d_x, first + attn_c_proj_weight, attn_proj);
  Activation d_qkv = context.allocate(shape.dtype, N * 3 * C);
  {
    const Activation scratch = context.allocate(DType::fp32, ops.attention_scratch_elems(shape.attention()));
    ops.attention_backward(stream, d_qkv, scratch, d_attended, saved.probs, saved.qkv, shape.attention());
  }
  d_attended.free();
  saved.probs.free();
  saved.qkv.free();

  const LinearShape attn{N, C, 3 * C};
  backward_linear_params(context, first + attn_c_attn_weight, first + attn_c_attn_bias, d_qkv, saved.ln_1.out,
                         attn, hooks);
  linear_backward_input(context, saved.ln_1.out, d_qkv, first + attn_c_attn_weight, attn);
  d_qkv.free();
  backward_norm(context, shape, first + ln_1_weight, first + ln_1_bias, d_x, saved.ln_1.out, saved.x,
                saved.ln_1, hooks);
  saved.ln_1 = {};
  saved.x.free();
}

}  // namespace zero1
