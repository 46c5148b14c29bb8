// Layer normalisation, forward and backward. One block per row; backward's sums over rows are those of
// rows.cuh.
#include <cmath>

#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/reduce.cuh"
#include "core/device/cuda/rows.cuh"

namespace zero1::cuda {

namespace {

// Bytes that must move per element, in bf16: forward 4 (x read, out written; the row's second and third look
// at x finds it in the cache), backward 6 (d_out and x read, d_x written), and 4 more for the weights' sums,
// which walk down the columns.

template <class T>
__global__ void normalize_kernel(T* out, float* mean, float* rstd, const T* x, const T* weight, const T* bias,
                                 std::int64_t rows, std::int64_t channels, float eps, bool aligned) {
  constexpr int W = row_width<T>;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * channels;
    float sum = 0;
    for_row<W>(channels, [&](auto width, std::int64_t c) {
      const auto xs = load_row<width()>(in + c, aligned);
      for (int k = 0; k < width(); ++k) sum += to_float(xs.at[k]);
    });
    const float mu = block_sum(sum) / static_cast<float>(channels);
    float squares = 0;
    for_row<W>(channels, [&](auto width, std::int64_t c) {
      const auto xs = load_row<width()>(in + c, aligned);
      for (int k = 0; k < width(); ++k) {
        const float centred = to_float(xs.at[k]) - mu;
        squares += centred * centred;
      }
    });
    const float scale = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(channels) + eps);
    for_row<W>(channels, [&](auto width, std::int64_t c) {
      const auto xs = load_row<width()>(in + c, aligned);
      const auto weights = load_row<width()>(weight + c, aligned),
                 biases = load_row<width()>(bias + c, aligned);
      Pack<T, width()> result;
      for (int k = 0; k < width(); ++k) {
        const float normal = (to_float(xs.at[k]) - mu) * scale;
        result.at[k] = from_float<T>(normal * to_float(weights.at[k]) + to_float(biases.at[k]));
      }
      store_row<width()>(out + row * channels + c, result, aligned);
    });
    if (threadIdx.x == 0) {
      mean[row] = mu;
      rstd[row] = scale;
    }
  }
}

/// d_x = (d_n - mean(d_n) - n mean(d_n n)) rstd + d_residual, where n is the normal and d_n its gradient.
template <class T>
__global__ void input_gradient_kernel(T* d_x, const T* d_out, const T* d_residual, const T* x,
                                      const T* weight, const float* mean, const float* rstd,
                                      std::int64_t rows, std::int64_t channels, bool aligned) {
  constexpr int W = row_width<T>;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t start = row * channels;
    const float mu = mean[row], scale = rstd[row];
    float sum = 0, sum_normal = 0;
    for_row<W>(channels, [&](auto width, std::int64_t c) {
      const auto ds = load_row<width()>(d_out + start + c, aligned),
                 xs = load_row<width()>(x + start + c, aligned),
                 weights = load_row<width()>(weight + c, aligned);
      for (int k = 0; k < width(); ++k) {
        const float d_normal = to_float(ds.at[k]) * to_float(weights.at[k]);
        sum += d_normal;
        sum_normal += d_normal * ((to_float(xs.at[k]) - mu) * scale);
      }
    });
    const float mean_d = block_sum(sum) / static_cast<float>(channels);
    const float mean_d_normal = block_sum(sum_normal) / static_cast<float>(channels);
    for_row<W>(channels, [&](auto width, std::int64_t c) {
      const auto ds = load_row<width()>(d_out + start + c, aligned),
                 xs = load_row<width()>(x + start + c, aligned),
                 weights = load_row<width()>(weight + c, aligned);
      Pack<T, width()> residual{}, result;
      if (d_residual != nullptr) residual = load_row<width()>(d_residual + start + c, aligned);
      for (int k = 0; k < width(); ++k) {
        const float normal = (to_float(xs.at[k]) - mu) * scale;
        const float d_normal = to_float(ds.at[k]) * to_float(weights.at[k]);
        float d = (d_normal - mean_d - normal * mean_d_normal) * scale;
        if (d_residual != nullptr) d += to_float(residual.at[k]);
        result.at[k] = from_float<T>(d);
      }
      store_row<width()>(d_x + start + c, result, aligned);
    });
  }
}

/// partial[group, 0, c] = Σ d_out n and partial[group, 1, c] = Σ d_out over the group's rows, in order.
template <class T>
__global__ void weight_gradient_kernel(float* partial, const T* d_out, const T* x, const float* mean,
                                       const float* rstd, std::int64_t rows, std::int64_t channels) {
  const std::int64_t c = first_item();
  if (c >= channels) return;
  for (std::int64_t group = blockIdx.y; group * rows_per_group < rows; group += gridDim.y) {
    const std::int64_t start = group * rows_per_group;
    const std::int64_t end = start + rows_per_group < rows ? start + rows_per_group : rows;
    float weight_sum = 0, bias_sum = 0;
    for (std::int64_t row = start; row < end; ++row) {
      const float d = to_float(d_out[row * channels + c]);
      weight_sum += d * ((to_float(x[row * channels + c]) - mean[row]) * rstd[row]);
      bias_sum += d;
    }
    partial[2 * group * channels + c] = weight_sum;
    partial[(2 * group + 1) * channels + c] = bias_sum;
  }
}

}  // namespace

void CudaOps::layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                                ConstTensorView x, ConstTensorView weight, ConstTensorView bias,
                                std::int64_t rows, std::int64_t channels, float eps) {
  check_layernorm_forward(out, mean, rstd, x, weight, bias, rows, channels);
  visit_low("layernorm_forward", "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    const QueuedStream& ours = cuda_stream(stream);
    if (out.empty()) return;
    ours.use_gpu();
    launch(&normalize_kernel<T>, row_blocks(rows), row_threads<T>(channels), 0, ours.handle(),
           pointer<T>(out), pointer<float>(mean), pointer<float>(rstd), pointer<T>(x), pointer<T>(weight),
           pointer<T>(bias), rows, channels, eps,
           rows_aligned<T>(channels, {out.data, x.data, weight.data, bias.data}));
  });
}

void CudaOps::layernorm_backward(Stream& stream, TensorView d_x, TensorView d_weight, TensorView d_bias,
                                 ConstTensorView d_out, ConstTensorView d_residual, ConstTensorView x,
                                 ConstTensorView weight, ConstTensorView mean, ConstTensorView rstd,
                                 std::int64_t rows, std::int64_t channels) {
  check_layernorm_backward(d_x, d_weight, d_bias, d_out, d_residual, x, weight, mean, rstd, rows, channels);
  constexpr auto op = "layernorm_backward";
  visit_low(op, "d_x", d_x.dtype, [&](auto low) {
    using Low = decltype(low);
    visit_grad<Low>(op, "d_weight", d_weight.dtype, [&](auto grad) {
      using Grad = decltype(grad);
      QueuedStream& ours = cuda_stream(stream);
      if (d_x.empty()) return;
      ours.use_gpu();
      const std::int64_t groups = row_groups(rows);
      auto* partial = static_cast<float*>(ours.scratch(groups * 2 * channels * 4));
      launch(&weight_gradient_kernel<Low>, column_grid(channels, groups), threads_per_block, 0, ours.handle(),
             partial, pointer<Low>(d_out), pointer<Low>(x), pointer<float>(mean), pointer<float>(rstd), rows,
             channels);
      const unsigned blocks = blocks_for(channels);
      launch(&add_groups_kernel<Grad>, blocks, threads_per_block, 0, ours.handle(), pointer<Grad>(d_weight),
             partial, groups, 2 * channels, channels);
      launch(&add_groups_kernel<Grad>, blocks, threads_per_block, 0, ours.handle(), pointer<Grad>(d_bias),
             partial + channels, groups, 2 * channels, channels);
      launch(&input_gradient_kernel<Low>, row_blocks(rows), row_threads<Low>(channels), 0, ours.handle(),
             pointer<Low>(d_x), pointer<Low>(d_out), pointer<Low>(d_residual), pointer<Low>(x),
             pointer<Low>(weight), pointer<float>(mean), pointer<float>(rstd), rows, channels,
             rows_aligned<Low>(channels, {d_x.data, d_out.data, d_residual.data, x.data, weight.data}));
    });
  });
}

}  // namespace zero1::cuda
