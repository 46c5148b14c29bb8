// Biases and activations.
#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/rows.cuh"

namespace zero1::cuda {

namespace {

template <class T>
struct AddBias {
  T* x;
  const T* bias;
  std::int64_t channels;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> value = load<W>(x + i);
    const Pack<T, W> b = load<W>(bias + column_of(i, channels));
    for (int k = 0; k < W; ++k) value.at[k] = from_float<T>(to_float(value.at[k]) + to_float(b.at[k]));
    store<W>(x + i, value);
  }
};

template <class T>
struct AddBiasResidual {
  T* residual;
  const T* x;
  const T* bias;  ///< null: none
  std::int64_t channels;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> sum = load<W>(residual + i);
    const Pack<T, W> value = load<W>(x + i);
    Pack<T, W> b{};
    if (bias != nullptr) b = load<W>(bias + column_of(i, channels));
    for (int k = 0; k < W; ++k) {
      sum.at[k] = from_float<T>(to_float(sum.at[k]) + (to_float(value.at[k]) + to_float(b.at[k])));
    }
    store<W>(residual + i, sum);
  }
};

/// gelu_tanh(x) = x * gate(x), gate = (1 + tanh(u)) / 2 = 1 / (1 + e^(-2u)) with
/// u = √(2/π) (x + 0.044715 x³). Beyond |x| = 16 the gate is 0 or 1 in fp32 and its slope is 0; the
/// clamp keeps x³ finite there, and a NaN a NaN.
struct Gelu {
  static constexpr float two_u_scale = 2 * 0.797884561F;
  static constexpr float cubic = 0.044715F;

  float clamped, gate;

  __device__ explicit Gelu(float x) {
    clamped = x > 16.0F ? 16.0F : (x < -16.0F ? -16.0F : x);
    const float polynomial = clamped * clamped * cubic + 1.0F;
    gate = 1.0F / (expf(clamped * polynomial * -two_u_scale) + 1.0F);
  }

  /// gate + x gate', where gate' = gate (1 - gate) · 2u'.
  __device__ float slope() const {
    const float two_du = clamped * clamped * (3 * cubic * two_u_scale) + two_u_scale;
    return clamped * two_du * (gate * (1.0F - gate)) + gate;
  }
};

template <class T>
struct BiasGelu {
  T* out;
  T* pre;
  const T* x;
  const T* bias;
  std::int64_t channels;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> before = load<W>(x + i);
    const Pack<T, W> b = load<W>(bias + column_of(i, channels));
    Pack<T, W> after;
    for (int k = 0; k < W; ++k) {
      before.at[k] = from_float<T>(to_float(before.at[k]) + to_float(b.at[k]));
      // Backward will see the rounded value, so forward uses it, too.
      const float value = to_float(before.at[k]);
      after.at[k] = from_float<T>(value * Gelu(value).gate);
    }
    store<W>(pre + i, before);
    store<W>(out + i, after);
  }
};

template <class T>
struct GeluBackward {
  T* d_pre;
  const T* d_out;
  const T* pre;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> d = load<W>(d_out + i);
    const Pack<T, W> x = load<W>(pre + i);
    for (int k = 0; k < W; ++k) {
      d.at[k] = from_float<T>(to_float(d.at[k]) * Gelu(to_float(x.at[k])).slope());
    }
    store<W>(d_pre + i, d);
  }
};

template <class T>
struct BiasRelu {
  T* x;
  const T* bias;
  std::int64_t channels;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> value = load<W>(x + i);
    const Pack<T, W> b = load<W>(bias + column_of(i, channels));
    for (int k = 0; k < W; ++k) {
      const float pre = to_float(value.at[k]) + to_float(b.at[k]);
      value.at[k] = from_float<T>(pre < 0 ? 0.0F : pre);  // a NaN stays
    }
    store<W>(x + i, value);
  }
};

template <class T>
struct ReluBackward {
  T* d_x;
  const T* d_out;
  const T* out;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    Pack<T, W> d = load<W>(d_out + i);
    const Pack<T, W> value = load<W>(out + i);
    for (int k = 0; k < W; ++k) d.at[k] = to_float(value.at[k]) > 0 ? d.at[k] : from_float<T>(0.0F);
    store<W>(d_x + i, d);
  }
};

/// partial[group, c] = Σ x[row, c] over the group's rows, in order.
template <class T>
__global__ void sum_rows_kernel(float* partial, const T* x, std::int64_t rows, std::int64_t channels) {
  const std::int64_t c = first_item();
  if (c >= channels) return;
  for (std::int64_t group = blockIdx.y; group * rows_per_group < rows; group += gridDim.y) {
    const std::int64_t start = group * rows_per_group;
    const std::int64_t end = start + rows_per_group < rows ? start + rows_per_group : rows;
    float sum = 0;
    for (std::int64_t row = start; row < end; ++row) sum += to_float(x[row * channels + c]);
    partial[group * channels + c] = sum;
  }
}

}  // namespace

void CudaOps::add_bias(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                       std::int64_t channels) {
  check_rows("add_bias", x, bias, rows, channels);
  visit_low("add_bias", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    for_elements<width>(cuda_stream(stream), x.numel,
                        row_cut(x.numel, channels, width, {operand(x), operand(bias)}),
                        AddBias<T>{pointer<T>(x), pointer<T>(bias), channels});
  });
}

void CudaOps::bias_backward(Stream& stream, TensorView d_bias, ConstTensorView d_out, std::int64_t rows,
                            std::int64_t channels) {
  check_bias_backward(d_bias, d_out, rows, channels);
  visit_low("bias_backward", "d_out", d_out.dtype, [&](auto low) {
    using Low = decltype(low);
    visit_grad<Low>("bias_backward", "d_bias", d_bias.dtype, [&](auto grad) {
      using Grad = decltype(grad);
      QueuedStream& ours = cuda_stream(stream);
      if (d_out.empty()) return;
      ours.use_gpu();
      const std::int64_t groups = row_groups(rows);
      auto* partial = static_cast<float*>(ours.scratch(groups * channels * 4));
      launch(&sum_rows_kernel<Low>, column_grid(channels, groups), threads_per_block, 0, ours.handle(),
             partial, pointer<Low>(d_out), rows, channels);
      launch(&add_groups_kernel<Grad>, blocks_for(channels), threads_per_block, 0, ours.handle(),
             pointer<Grad>(d_bias), partial, groups, channels, channels);
    });
  });
}

void CudaOps::add_bias_residual(Stream& stream, TensorView residual, ConstTensorView x, ConstTensorView bias,
                                std::int64_t rows, std::int64_t channels) {
  check_add_bias_residual(residual, x, bias, rows, channels);
  visit_low("add_bias_residual", "residual", residual.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    const Cut cut = row_cut(residual.numel, channels, width, {operand(residual), operand(x), operand(bias)});
    for_elements<width>(cuda_stream(stream), residual.numel, cut,
                        AddBiasResidual<T>{pointer<T>(residual), pointer<T>(x), pointer<T>(bias), channels});
  });
}

void CudaOps::bias_gelu_forward(Stream& stream, TensorView out, TensorView pre, ConstTensorView x,
                                ConstTensorView bias, std::int64_t rows, std::int64_t channels) {
  check_bias_gelu_forward(out, pre, x, bias, rows, channels);
  visit_low("bias_gelu_forward", "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    const Cut cut =
        row_cut(out.numel, channels, width, {operand(out), operand(pre), operand(x), operand(bias)});
    for_elements<width>(
        cuda_stream(stream), out.numel, cut,
        BiasGelu<T>{pointer<T>(out), pointer<T>(pre), pointer<T>(x), pointer<T>(bias), channels});
  });
}

void CudaOps::gelu_backward(Stream& stream, TensorView d_pre, ConstTensorView d_out, ConstTensorView pre) {
  check_like("gelu_backward", d_pre, {"d_out", d_out}, {"pre", pre});
  visit_low("gelu_backward", "d_pre", d_pre.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    for_elements<width>(cuda_stream(stream), d_pre.numel,
                        vector_cut(d_pre.numel, width, {operand(d_pre), operand(d_out), operand(pre)}),
                        GeluBackward<T>{pointer<T>(d_pre), pointer<T>(d_out), pointer<T>(pre)});
  });
}

void CudaOps::bias_relu_forward(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                                std::int64_t channels) {
  check_rows("bias_relu_forward", x, bias, rows, channels);
  visit_low("bias_relu_forward", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    for_elements<width>(cuda_stream(stream), x.numel,
                        row_cut(x.numel, channels, width, {operand(x), operand(bias)}),
                        BiasRelu<T>{pointer<T>(x), pointer<T>(bias), channels});
  });
}

void CudaOps::relu_backward(Stream& stream, TensorView d_x, ConstTensorView d_out, ConstTensorView out) {
  check_like("relu_backward", d_x, {"d_out", d_out}, {"out", out});
  visit_low("relu_backward", "d_x", d_x.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int width = pack_width<T>;
    for_elements<width>(cuda_stream(stream), d_x.numel,
                        vector_cut(d_x.numel, width, {operand(d_x), operand(d_out), operand(out)}),
                        ReluBackward<T>{pointer<T>(d_x), pointer<T>(d_out), pointer<T>(out)});
  });
}

}  // namespace zero1::cuda
