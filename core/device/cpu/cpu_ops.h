// The CPU's operations. Each call checks its arguments, then submits a closure to the stream; the
// kernels are in cpu_ops_*.cpp, cpu_attention.cpp and matmul.cpp (oneDNN).
#pragma once

#include <utility>

#include "core/device/cpu/cpu_stream.h"
#include "core/device/cpu/matmul.h"
#include "core/device/op_arguments.h"
#include "core/device/ops.h"

namespace zero1::cpu {

using namespace op_checks;  // NOLINT: every operation begins with a check

class CpuOps final : public Ops {
 public:
  void fill(Stream& stream, TensorView x, float value) override;
  void cast(Stream& stream, TensorView dst, ConstTensorView src) override;
  void scale(Stream& stream, TensorView x, float factor) override;
  void accumulate(Stream& stream, TensorView dst, ConstTensorView src) override;

  void grad_stats(Stream& stream, TensorView out, ConstTensorView x) override;
  void grad_stats_and_scale(Stream& stream, TensorView out, TensorView x, float factor) override;
  void sum_of_squares(Stream& stream, TensorView out, ConstTensorView x, const double* max_abs,
                      std::int64_t total_elems) override;
  void grad_stats_and_sum_of_squares(Stream& stream, TensorView stats, TensorView out, ConstTensorView x,
                                     const double* guess, std::int64_t total_elems) override;
  void adamw(Stream& stream, const AdamWArgs& args) override;

  void matmul(Stream& stream, const MatmulArgs& args) override;
  void embedding_forward(Stream& stream, TensorView out, const std::int32_t* tokens, ConstTensorView wte,
                         ConstTensorView wpe, std::int64_t n_tokens, std::int64_t seq_len,
                         std::int64_t channels) override;
  void embedding_backward(Stream& stream, TensorView d_wte, TensorView d_wpe, ConstTensorView d_out,
                          const std::int32_t* tokens, std::int64_t n_tokens, std::int64_t seq_len,
                          std::int64_t channels) override;
  void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd, ConstTensorView x,
                         ConstTensorView weight, ConstTensorView bias, std::int64_t rows,
                         std::int64_t channels, float eps) override;
  void layernorm_backward(Stream& stream, TensorView d_x, TensorView d_weight, TensorView d_bias,
                          ConstTensorView d_out, ConstTensorView d_residual, ConstTensorView x,
                          ConstTensorView weight, ConstTensorView mean, ConstTensorView rstd,
                          std::int64_t rows, std::int64_t channels) override;
  void add_bias(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                std::int64_t channels) override;
  void bias_backward(Stream& stream, TensorView d_bias, ConstTensorView d_out, std::int64_t rows,
                     std::int64_t channels) override;
  void add_bias_residual(Stream& stream, TensorView residual, ConstTensorView x, ConstTensorView bias,
                         std::int64_t rows, std::int64_t channels) override;
  void bias_gelu_forward(Stream& stream, TensorView out, TensorView pre, ConstTensorView x,
                         ConstTensorView bias, std::int64_t rows, std::int64_t channels) override;
  void gelu_backward(Stream& stream, TensorView d_pre, ConstTensorView d_out, ConstTensorView pre) override;
  void bias_relu_forward(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                         std::int64_t channels) override;
  void relu_backward(Stream& stream, TensorView d_x, ConstTensorView d_out, ConstTensorView out) override;
  void attention_forward(Stream& stream, TensorView out, TensorView probs, ConstTensorView qkv,
                         const AttentionShape& shape) override;
  void attention_backward(Stream& stream, TensorView d_qkv, TensorView scratch, ConstTensorView d_out,
                          ConstTensorView probs, ConstTensorView qkv, const AttentionShape& shape) override;
  std::int64_t attention_scratch_elems(const AttentionShape& shape) const override;
  void cross_entropy(Stream& stream, TensorView loss_sum, TensorView logits, const std::int32_t* targets,
                     std::int64_t rows, std::int64_t vocab, float grad_scale) override;
  void cross_entropy_loss(Stream& stream, TensorView loss_sum, ConstTensorView logits,
                          const std::int32_t* targets, std::int64_t rows, std::int64_t vocab) override;

 private:
  /// Submits fn(workers) to the stream.
  template <class Fn>
  static void run(Stream& stream, Fn fn) {
    StreamBase& ours = cpu_stream(stream);
    ours.submit([&workers = ours.workers(), fn = std::move(fn)]() mutable { fn(workers); });
  }

  ProductCache products_;
};

}  // namespace zero1::cpu
