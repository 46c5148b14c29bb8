// Layer normalisation, forward and backward. One block per row; backward's sums over rows are those of
// rows.cuh.
#include <cmath>

#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/reduce.cuh"
#include "core/device/cuda/rows.cuh"

namespace zero1::cuda {

namespace {

/// Whole warps, enough for a row's columns, at most threads_per_block.
unsigned row_threads(std::int64_t channels) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((channels + 31) / 32 * 32, 32, threads_per_block));
}

unsigned row_blocks(std::int64_t rows) {
  return static_cast<unsigned>(std::min<std::int64_t>(rows, 1 << 20));
}

template <class T>
__global__ void normalize_kernel(T* out, float* mean, float* rstd, const T* x, const T* weight, const T* bias,
                                 std::int64_t rows, std::int64_t channels, float eps) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + row * channels;
    float sum = 0;
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) sum += to_float(in[c]);
    const float mu = block_sum(sum) / static_cast<float>(channels);
    float squares = 0;
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const float centred = to_float(in[c]) - mu;
      squares += centred * centred;
    }
    const float scale = 1.0F / sqrtf(block_sum(squares) / static_cast<float>(channels) + eps);
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const float normal = (to_float(in[c]) - mu) * scale;
      out[row * channels + c] = from_float<T>(normal * to_float(weight[c]) + to_float(bias[c]));
    }
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
                                      std::int64_t rows, std::int64_t channels) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t start = row * channels;
    const float mu = mean[row], scale = rstd[row];
    float sum = 0, sum_normal = 0;
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const float d_normal = to_float(d_out[start + c]) * to_float(weight[c]);
      sum += d_normal;
      sum_normal += d_normal * ((to_float(x[start + c]) - mu) * scale);
    }
    const float mean_d = block_sum(sum) / static_cast<float>(channels);
    const float mean_d_normal = block_sum(sum_normal) / static_cast<float>(channels);
    for (std::int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
      const float normal = (to_float(x[start + c]) - mu) * scale;
      const float d_normal = to_float(d_out[start + c]) * to_float(weight[c]);
      float d = (d_normal - mean_d - normal * mean_d_normal) * scale;
      if (d_residual != nullptr) d += to_float(d_residual[start + c]);
      d_x[start + c] = from_float<T>(d);
    }
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
    launch(&normalize_kernel<T>, row_blocks(rows), row_threads(channels), 0, ours.handle(), pointer<T>(out),
           pointer<float>(mean), pointer<float>(rstd), pointer<T>(x), pointer<T>(weight), pointer<T>(bias),
           rows, channels, eps);
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
      launch(&input_gradient_kernel<Low>, row_blocks(rows), row_threads(channels), 0, ours.handle(),
             pointer<Low>(d_x), pointer<Low>(d_out), pointer<Low>(d_residual), pointer<Low>(x),
             pointer<Low>(weight), pointer<float>(mean), pointer<float>(rstd), rows, channels);
    });
  });
}

}  // namespace zero1::cuda
