// The operations a device must offer. CPU is the reference; tests/conformance compares every device
// with it. All operations are queued on the given stream and touch only device memory. Views may hold
// zero elements. Unless said otherwise inputs and outputs do not overlap, and a combination of dtypes
// that is not listed throws std::invalid_argument at the call.
#pragma once

#include <cstdint>

#include "core/device/tensor_view.h"

namespace zero1 {

class Stream;

/// Decoupled weight decay Adam on one contiguous piece of a shard. The hyperparameters are doubles, so
/// that 1 - beta2 and the bias corrections are rounded once.
struct AdamWArgs {
  TensorView main_param;  ///< fp32, in and out
  TensorView exp_avg;     ///< fp32, in and out
  TensorView exp_avg_sq;  ///< fp32, in and out
  ConstTensorView grad;   ///< fp32, bf16 or fp16
  /// bf16/fp16: main_param rounded to nearest even; fp32: a copy; data null: not written
  TensorView model_param;
  /// device pointer: every gradient is multiplied by it first (clipping); null: by 1
  const float* grad_scale = nullptr;
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;  ///< 1 for the first update; for bias correction
};

/// C = alpha * op(A) · op(B) + beta * C, all row-major.
struct MatmulArgs {
  ConstTensorView a;  ///< fp32 or bf16/fp16; op(A) is [m, k]: stored [m, k], or [k, m] with transpose_a
  ConstTensorView b;  ///< dtype of a; op(B) is [k, n]: stored [k, n], or [n, k] with transpose_b
  TensorView c;       ///< [m, n], fp32 or the dtype of a; accumulation is in fp32
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  float beta = 0;  ///< 0: c is only written (it may hold NaN)
};

/// Causal multi-head attention: softmax(q·kᵀ / sqrt(head_dim), causal) · v for each sequence and head.
struct AttentionShape {
  std::int64_t batch = 0;     ///< B sequences
  std::int64_t seq_len = 0;   ///< T
  std::int64_t heads = 0;     ///< H
  std::int64_t head_dim = 0;  ///< D; the model width is C = H·D
};

class Ops {
 public:
  virtual ~Ops() = default;

  // ---- elementwise, any of fp32, bf16, fp16 (fp64 where said) ----

  /// x[i] = value. Also fp64.
  virtual void fill(Stream& stream, TensorView x, float value) = 0;
  /// dst[i] = src[i], converted to dst's dtype by rounding to nearest even. Also fp64 → fp64, fp64 ↔ fp32.
  virtual void cast(Stream& stream, TensorView dst, ConstTensorView src) = 0;
  /// x[i] *= factor, computed in fp32.
  virtual void scale(Stream& stream, TensorView x, float factor) = 0;
  /// dst[i] += src[i], computed in fp32 and rounded to dst's dtype.
  virtual void accumulate(Stream& stream, TensorView dst, ConstTensorView src) = 0;

  // ---- the optimizer ----

  /// out[0] = max(out[0], largest finite |x[i]|); out[1] += number of NaN or infinite x[i].
  /// `out`: fp64[2] on the device. Any order of calls gives the same bits.
  virtual void grad_stats(Stream& stream, TensorView out, ConstTensorView x) = 0;

  /// grad_stats of x as it is, and scale: one pass over memory where a device can, with the same bits.
  virtual void grad_stats_and_scale(Stream& stream, TensorView out, TensorView x, float factor) {
    grad_stats(stream, out, x);
    scale(stream, x, factor);
  }

  /// Adds Σ x[i]² to `out`, fp64[3] on the device, in a way that does not depend on the order of
  /// elements, on how they are split into calls, or on the ranks that hold the pieces: each square is
  /// cut into three slices on fixed grids below the bound, and sums of slices are exact in fp64.
  /// `max_abs`: device pointer to a fp64 bound, at least every |x[i]| of every call and rank (from
  /// grad_stats, reduced by max over ranks); `total_elems`: at least the number of elements over all
  /// calls and ranks. x must be finite. `out[0] + out[1] + out[2]`, in this order, is the sum.
  virtual void sum_of_squares(Stream& stream, TensorView out, ConstTensorView x, const double* max_abs,
                              std::int64_t total_elems) = 0;

  /// grad_stats into `stats`, and sum_of_squares into `out` under a bound that is a guess: one pass over
  /// memory where a device can, with the same bits. x may hold anything; `out` is to be thrown away unless
  /// `stats` then says that all was finite and below a bound with the grids of the guess
  /// (SliceGrids::exponent_of).
  virtual void grad_stats_and_sum_of_squares(Stream& stream, TensorView stats, TensorView out,
                                             ConstTensorView x, const double* guess,
                                             std::int64_t total_elems) {
    grad_stats(stream, stats, x);
    sum_of_squares(stream, out, x, guess, total_elems);
  }

  virtual void adamw(Stream& stream, const AdamWArgs& args) = 0;

  // ---- the model; "low" is one of fp32, bf16, fp16, the same for all activations of a call ----

  virtual void matmul(Stream& stream, const MatmulArgs& args) = 0;

  /// out[t, :] = wte[tokens[t], :] + wpe[t % seq_len, :].  tokens: int32 device pointer, n_tokens of
  /// them, a multiple of seq_len; out, wte, wpe: low, width `channels`.
  virtual void embedding_forward(Stream& stream, TensorView out, const std::int32_t* tokens,
                                 ConstTensorView wte, ConstTensorView wpe, std::int64_t n_tokens,
                                 std::int64_t seq_len, std::int64_t channels) = 0;
  /// d_wte[tokens[t], :] += d_out[t, :] and d_wpe[t % seq_len, :] += d_out[t, :], in the order of t,
  /// accumulated in the gradients' dtype (fp32 or low). Either gradient may have null data: skipped.
  virtual void embedding_backward(Stream& stream, TensorView d_wte, TensorView d_wpe, ConstTensorView d_out,
                                  const std::int32_t* tokens, std::int64_t n_tokens, std::int64_t seq_len,
                                  std::int64_t channels) = 0;

  /// Rows of `channels`: out = (x - mean) * rstd * weight + bias. mean, rstd: fp32 [rows], saved for
  /// backward. eps is added to the variance.
  virtual void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                                 ConstTensorView x, ConstTensorView weight, ConstTensorView bias,
                                 std::int64_t rows, std::int64_t channels, float eps) = 0;
  /// d_x = gradient through the norm, plus `d_residual` when its data is not null (it may be d_x
  /// itself); d_weight, d_bias (fp32 or low) are accumulated into.
  virtual void layernorm_backward(Stream& stream, TensorView d_x, TensorView d_weight, TensorView d_bias,
                                  ConstTensorView d_out, ConstTensorView d_residual, ConstTensorView x,
                                  ConstTensorView weight, ConstTensorView mean, ConstTensorView rstd,
                                  std::int64_t rows, std::int64_t channels) = 0;

  /// x[row, :] += bias.
  virtual void add_bias(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                        std::int64_t channels) = 0;
  /// d_bias[:] += Σ_rows d_out[row, :]. d_bias: fp32 or low. Sums in fp32, in a fixed order.
  virtual void bias_backward(Stream& stream, TensorView d_bias, ConstTensorView d_out, std::int64_t rows,
                             std::int64_t channels) = 0;
  /// residual[row, :] += x[row, :] + bias (bias data null: none).
  virtual void add_bias_residual(Stream& stream, TensorView residual, ConstTensorView x, ConstTensorView bias,
                                 std::int64_t rows, std::int64_t channels) = 0;

  /// pre[row, :] = x[row, :] + bias, out = gelu_tanh(pre). pre may be x itself, out may not.
  virtual void bias_gelu_forward(Stream& stream, TensorView out, TensorView pre, ConstTensorView x,
                                 ConstTensorView bias, std::int64_t rows, std::int64_t channels) = 0;
  /// d_pre = d_out * gelu_tanh'(pre); d_pre may be d_out itself.
  virtual void gelu_backward(Stream& stream, TensorView d_pre, ConstTensorView d_out,
                             ConstTensorView pre) = 0;
  /// x[row, :] = max(x[row, :] + bias, 0), in place: the MLP example's activation.
  virtual void bias_relu_forward(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                                 std::int64_t channels) = 0;
  /// d_x[i] = out[i] > 0 ? d_out[i] : 0, where `out` is what forward left; d_x may be d_out itself.
  virtual void relu_backward(Stream& stream, TensorView d_x, ConstTensorView d_out, ConstTensorView out) = 0;

  /// qkv: [B·T, 3C] (q, k, v each C wide, heads side by side); out: [B·T, C]; probs: low [B, H, T, T],
  /// saved for backward (entries above the diagonal are zero).
  virtual void attention_forward(Stream& stream, TensorView out, TensorView probs, ConstTensorView qkv,
                                 const AttentionShape& shape) = 0;
  /// d_qkv is written. `scratch`: fp32, attention_scratch_elems(shape) elements.
  virtual void attention_backward(Stream& stream, TensorView d_qkv, TensorView scratch, ConstTensorView d_out,
                                  ConstTensorView probs, ConstTensorView qkv,
                                  const AttentionShape& shape) = 0;
  virtual std::int64_t attention_scratch_elems(const AttentionShape& shape) const = 0;

  /// For each row: loss = logsumexp(logits) - logits[target]; loss_sum (fp64[1]) += Σ loss, in a fixed
  /// order. logits are overwritten by their gradient: (softmax - onehot) * grad_scale.
  virtual void cross_entropy(Stream& stream, TensorView loss_sum, TensorView logits,
                             const std::int32_t* targets, std::int64_t rows, std::int64_t vocab,
                             float grad_scale) = 0;
  /// The loss alone, logits untouched: evaluation.
  virtual void cross_entropy_loss(Stream& stream, TensorView loss_sum, ConstTensorView logits,
                                  const std::int32_t* targets, std::int64_t rows, std::int64_t vocab) = 0;
};

}  // namespace zero1
