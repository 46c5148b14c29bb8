// What each operation demands of its arguments, the same on every device. All throw
// std::invalid_argument; the dtype of activations ("low") is checked by who dispatches on it.
#pragma once

#include <cstdint>
#include <string>

#include "core/device/op_checks.h"
#include "core/device/ops.h"

namespace zero1::op_checks {

inline void check_cast(const TensorView& dst, const ConstTensorView& src) {
  check_numel("cast", "dst", dst, src.numel);
  const auto is_wide = [](DType d) { return d == DType::fp64; };
  const auto is_low = [](DType d) { return d == DType::bf16 || d == DType::fp16; };
  if ((is_wide(dst.dtype) && is_low(src.dtype)) || (is_wide(src.dtype) && is_low(dst.dtype))) {
    reject("cast", "float64 converts to and from float32 only");
  }
}

inline void check_sum_of_squares(const TensorView& out, const ConstTensorView& x, std::int64_t total_elems) {
  check("sum_of_squares", "out", out, DType::fp64, 3);
  if (total_elems < x.numel) {
    reject("sum_of_squares", "total_elems is " + std::to_string(total_elems) + ", but x alone has " +
                                 std::to_string(x.numel) + " elements");
  }
}

inline void check_adamw(const AdamWArgs& args) {
  const std::int64_t numel = args.main_param.numel;
  check_dtype("adamw", "main_param", args.main_param, DType::fp32);
  check("adamw", "exp_avg", args.exp_avg, DType::fp32, numel);
  check("adamw", "exp_avg_sq", args.exp_avg_sq, DType::fp32, numel);
  check_numel("adamw", "grad", args.grad, numel);
  if (args.model_param.data != nullptr) check_numel("adamw", "model_param", args.model_param, numel);
  if (args.step < 1) reject("adamw", "step is " + std::to_string(args.step) + ", the first update is step 1");
}

inline void check_matmul(const MatmulArgs& args) {
  constexpr auto op = "matmul";
  if (args.m < 0 || args.n < 0 || args.k < 0) reject(op, "m, n or k is negative");
  check_numel(op, "a", args.a, args.m * args.k);
  check(op, "b", args.b, args.a.dtype, args.k * args.n);
  check_numel(op, "c", args.c, args.m * args.n);
}

/// Another operand with the dtype and size of the first.
struct NamedView {
  const char* argument;
  ConstTensorView view;
};

inline void check_like(const char* op, const ConstTensorView& first, const NamedView& second,
                       const NamedView& third) {
  check(op, second.argument, second.view, first.dtype, first.numel);
  check(op, third.argument, third.view, first.dtype, first.numel);
}

/// x: [rows, channels], bias: [channels].
inline void check_rows(const char* op, const ConstTensorView& x, const ConstTensorView& bias,
                       std::int64_t rows, std::int64_t channels) {
  check_numel(op, "x", x, rows * channels);
  check(op, "bias", bias, x.dtype, channels);
}

inline void check_bias_backward(const TensorView& d_bias, const ConstTensorView& d_out, std::int64_t rows,
                                std::int64_t channels) {
  check_numel("bias_backward", "d_out", d_out, rows * channels);
  check_numel("bias_backward", "d_bias", d_bias, channels);
}

inline void check_add_bias_residual(const TensorView& residual, const ConstTensorView& x,
                                    const ConstTensorView& bias, std::int64_t rows, std::int64_t channels) {
  constexpr auto op = "add_bias_residual";
  check_numel(op, "residual", residual, rows * channels);
  check(op, "x", x, residual.dtype, rows * channels);
  if (bias.data != nullptr) check(op, "bias", bias, residual.dtype, channels);
}

inline void check_bias_gelu_forward(const TensorView& out, const TensorView& pre, const ConstTensorView& x,
                                    const ConstTensorView& bias, std::int64_t rows, std::int64_t channels) {
  constexpr auto op = "bias_gelu_forward";
  check_numel(op, "out", out, rows * channels);
  check(op, "pre", pre, out.dtype, rows * channels);
  check(op, "x", x, out.dtype, rows * channels);
  check(op, "bias", bias, out.dtype, channels);
}

inline void check_sequences(const char* op, std::int64_t n_tokens, std::int64_t seq_len) {
  if (seq_len < 1 || n_tokens % seq_len != 0) reject(op, "n_tokens must be a multiple of seq_len");
}

inline void check_embedding_forward(const TensorView& out, const ConstTensorView& wte,
                                    const ConstTensorView& wpe, std::int64_t n_tokens, std::int64_t seq_len,
                                    std::int64_t channels) {
  constexpr auto op = "embedding_forward";
  check_numel(op, "out", out, n_tokens * channels);
  check_dtype(op, "wte", wte, out.dtype);
  check_dtype(op, "wpe", wpe, out.dtype);
  check_sequences(op, n_tokens, seq_len);
  if (wpe.numel < seq_len * channels) reject(op, "wpe has fewer rows than seq_len");
}

inline void check_embedding_backward(const TensorView& d_wte, const TensorView& d_wpe,
                                     const ConstTensorView& d_out, std::int64_t n_tokens,
                                     std::int64_t seq_len, std::int64_t channels) {
  constexpr auto op = "embedding_backward";
  check_numel(op, "d_out", d_out, n_tokens * channels);
  check_sequences(op, n_tokens, seq_len);
  if (d_wpe.data != nullptr && d_wpe.numel < seq_len * channels) {
    reject(op, "d_wpe has fewer rows than seq_len");
  }
  for (const TensorView& grad : {d_wte, d_wpe}) {
    if (grad.data != nullptr && grad.dtype != DType::fp32 && grad.dtype != d_out.dtype) {
      reject(op, "a gradient is " + std::string(name(grad.dtype)) + ", expected float32 or " +
                     std::string(name(d_out.dtype)));
    }
  }
}

inline void check_layernorm_forward(const TensorView& out, const TensorView& mean, const TensorView& rstd,
                                    const ConstTensorView& x, const ConstTensorView& weight,
                                    const ConstTensorView& bias, std::int64_t rows, std::int64_t channels) {
  constexpr auto op = "layernorm_forward";
  check_numel(op, "out", out, rows * channels);
  check(op, "x", x, out.dtype, rows * channels);
  check(op, "mean", mean, DType::fp32, rows);
  check(op, "rstd", rstd, DType::fp32, rows);
  check(op, "weight", weight, out.dtype, channels);
  check(op, "bias", bias, out.dtype, channels);
}

inline void check_layernorm_backward(const TensorView& d_x, const TensorView& d_weight,
                                     const TensorView& d_bias, const ConstTensorView& d_out,
                                     const ConstTensorView& d_residual, const ConstTensorView& x,
                                     const ConstTensorView& weight, const ConstTensorView& mean,
                                     const ConstTensorView& rstd, std::int64_t rows, std::int64_t channels) {
  constexpr auto op = "layernorm_backward";
  const std::int64_t numel = rows * channels;
  check_numel(op, "d_x", d_x, numel);
  check(op, "d_out", d_out, d_x.dtype, numel);
  if (d_residual.data != nullptr) check(op, "d_residual", d_residual, d_x.dtype, numel);
  check(op, "x", x, d_x.dtype, numel);
  check(op, "weight", weight, d_x.dtype, channels);
  check(op, "mean", mean, DType::fp32, rows);
  check(op, "rstd", rstd, DType::fp32, rows);
  check_numel(op, "d_weight", d_weight, channels);
  check(op, "d_bias", d_bias, d_weight.dtype, channels);
}

/// The elements of one [B·T, C] tensor.
inline std::int64_t check_attention_shape(const char* op, const AttentionShape& s) {
  if (s.batch < 0 || s.seq_len < 0 || s.heads < 0 || s.head_dim < 0) {
    reject(op, "a size of the shape is negative");
  }
  return s.batch * s.seq_len * s.heads * s.head_dim;
}

inline void check_attention_forward(const TensorView& out, const TensorView& probs,
                                    const ConstTensorView& qkv, const AttentionShape& s) {
  constexpr auto op = "attention_forward";
  const std::int64_t elems = check_attention_shape(op, s);
  check_numel(op, "out", out, elems);
  check(op, "qkv", qkv, out.dtype, 3 * elems);
  check(op, "probs", probs, out.dtype, s.batch * s.heads * s.seq_len * s.seq_len);
}

inline void check_attention_backward(const TensorView& d_qkv, const TensorView& scratch,
                                     const ConstTensorView& d_out, const ConstTensorView& probs,
                                     const ConstTensorView& qkv, const AttentionShape& s,
                                     std::int64_t scratch_elems) {
  constexpr auto op = "attention_backward";
  const std::int64_t elems = check_attention_shape(op, s);
  check_numel(op, "d_qkv", d_qkv, 3 * elems);
  check(op, "scratch", scratch, DType::fp32, scratch_elems);
  check(op, "d_out", d_out, d_qkv.dtype, elems);
  check(op, "qkv", qkv, d_qkv.dtype, 3 * elems);
  check(op, "probs", probs, d_qkv.dtype, s.batch * s.heads * s.seq_len * s.seq_len);
}

inline void check_cross_entropy(const char* op, const TensorView& loss_sum, const ConstTensorView& logits,
                                std::int64_t rows, std::int64_t vocab) {
  check(op, "loss_sum", loss_sum, DType::fp64, 1);
  check_numel(op, "logits", logits, rows * vocab);
}

}  // namespace zero1::op_checks
