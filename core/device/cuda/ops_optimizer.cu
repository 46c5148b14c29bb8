// Gradient statistics, the order-free sum of squares, and AdamW.
#include <cmath>

#include "core/device/adamw_coefficients.h"
#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/elementwise.cuh"
#include "core/device/cuda/reduce.cuh"
#include "core/device/slice_grids.h"

namespace zero1::cuda {

namespace {

/// One block's part of grad_stats. fp64 holds the count exactly.
struct PartialStats {
  double max_abs, non_finite;
};

template <class T>
__global__ void grad_stats_kernel(PartialStats* partial, const T* x, std::int64_t n) {
  float largest = 0;
  std::int64_t bad = 0;
  for (std::int64_t i = first_item(); i < n; i += item_stride()) {
    const float magnitude = fabsf(to_float(x[i]));
    const bool finite = magnitude <= 3.402823466e+38F;  // false for NaN, too
    if (finite) largest = fmaxf(largest, magnitude);
    bad += finite ? 0 : 1;
  }
  const float block_largest = block_max(largest, 0.0F);
  const double block_bad = block_sum(static_cast<double>(bad));
  if (threadIdx.x == 0) partial[blockIdx.x] = {static_cast<double>(block_largest), block_bad};
}

/// Combines the blocks' parts with `out`; maxima and whole numbers come out the same in any order.
__global__ void combine_stats_kernel(double* out, const PartialStats* partial, unsigned parts) {
  double largest = 0, bad = 0;
  for (unsigned p = threadIdx.x; p < parts; p += blockDim.x) {
    largest = fmax(largest, partial[p].max_abs);
    bad += partial[p].non_finite;
  }
  largest = block_max(largest, 0.0);
  bad = block_sum(bad);
  if (threadIdx.x != 0) return;
  out[0] = fmax(out[0], largest);
  out[1] += bad;
}

/// Sums of the slices that SliceGrids cuts; exact, so that no order of blocks or threads shows in them.
struct Slices {
  double at[3];
};

template <class T>
__global__ void slices_kernel(Slices* partial, const T* x, std::int64_t n, const double* max_abs,
                              std::int64_t total_elems) {
  const SliceGrids grids(*max_abs, total_elems);
  Slices sums{};
  for (std::int64_t i = first_item(); i < n; i += item_stride()) {
    const double wide = static_cast<double>(to_float(x[i]));
    double rest = wide * wide;
    for (int s = 0; s < 3; ++s) {
      const double slice = (rest + grids.magic[s]) - grids.magic[s];
      sums.at[s] += slice;
      rest -= slice;
    }
  }
  for (double& sum : sums.at) sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sums;
}

__global__ void combine_slices_kernel(double* out, const Slices* partial, unsigned parts,
                                      const double* max_abs) {
  Slices sums{};
  for (unsigned p = threadIdx.x; p < parts; p += blockDim.x) {
    for (int s = 0; s < 3; ++s) sums.at[s] += partial[p].at[s];
  }
  for (double& sum : sums.at) sum = block_sum(sum);
  if (threadIdx.x != 0 || *max_abs == 0) return;
  if (!isfinite(*max_abs)) {
    out[0] = nan("");
    return;
  }
  for (int s = 0; s < 3; ++s) out[s] += sums.at[s];
}

/// One pass over memory. Per element: 12 bytes of parameter and moments read and written, the gradient
/// read, the model's copy written; 28 bytes in all with both in bf16.
template <class Grad, class Model>
struct AdamW {
  float* param;
  float* m;
  float* v;
  const Grad* grad;
  Model* model;
  const float* grad_scale;
  AdamWCoefficients k;

  template <int W>
  __device__ void apply(std::int64_t i) const {
    const float scale = grad_scale != nullptr ? *grad_scale : 1.0F;
    const Pack<Grad, W> gradients = load<W>(grad + i);
    Pack<float, W> p = load<W>(param + i), first = load<W>(m + i), second = load<W>(v + i);
    Pack<Model, W> copy;
    for (int e = 0; e < W; ++e) {
      const float g = to_float(gradients.at[e]) * scale;
      first.at[e] = first.at[e] * k.beta1 + g * k.one_minus_beta1;
      second.at[e] = second.at[e] * k.beta2 + (g * g) * k.one_minus_beta2;
      const float denominator = sqrtf(second.at[e]) * k.inverse_sqrt_correction2 + k.eps;
      p.at[e] = p.at[e] * k.decay - first.at[e] / denominator * k.step_size;
      copy.at[e] = from_float<Model>(p.at[e]);
    }
    store<W>(m + i, first);
    store<W>(v + i, second);
    store<W>(param + i, p);
    if (model != nullptr) store<W>(model + i, copy);
  }
};

}  // namespace

void CudaOps::grad_stats(Stream& stream, TensorView out, ConstTensorView x) {
  check("grad_stats", "out", out, DType::fp64, 2);
  visit_low("grad_stats", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    QueuedStream& ours = cuda_stream(stream);
    if (x.empty()) return;
    ours.use_gpu();
    const unsigned blocks = blocks_for_sum(x.numel);
    auto* partial = static_cast<PartialStats*>(ours.scratch(blocks * std::int64_t{sizeof(PartialStats)}));
    launch(&grad_stats_kernel<T>, blocks, threads_per_block, 0, ours.handle(), partial, pointer<T>(x),
           x.numel);
    launch(&combine_stats_kernel, 1, threads_per_block, 0, ours.handle(), pointer<double>(out), partial,
           blocks);
  });
}

void CudaOps::sum_of_squares(Stream& stream, TensorView out, ConstTensorView x, const double* max_abs,
                             std::int64_t total_elems) {
  check_sum_of_squares(out, x, total_elems);
  visit_low("sum_of_squares", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    QueuedStream& ours = cuda_stream(stream);
    if (x.empty()) return;
    ours.use_gpu();
    const unsigned blocks = blocks_for_sum(x.numel);
    auto* partial = static_cast<Slices*>(ours.scratch(blocks * std::int64_t{sizeof(Slices)}));
    launch(&slices_kernel<T>, blocks, threads_per_block, 0, ours.handle(), partial, pointer<T>(x), x.numel,
           max_abs, total_elems);
    launch(&combine_slices_kernel, 1, threads_per_block, 0, ours.handle(), pointer<double>(out), partial,
           blocks, max_abs);
  });
}

void CudaOps::adamw(Stream& stream, const AdamWArgs& args) {
  check_adamw(args);
  const DType model_dtype = args.model_param.data != nullptr ? args.model_param.dtype : DType::fp32;
  visit_low("adamw", "grad", args.grad.dtype, [&](auto grad_type) {
    visit_low("adamw", "model_param", model_dtype, [&](auto model_type) {
      using Grad = decltype(grad_type);
      using Model = decltype(model_type);
      constexpr int width = pack_width<Grad, Model, float>;
      const std::int64_t n = args.main_param.numel;
      const Cut cut = vector_cut(n, width,
                                 {operand(args.main_param), operand(args.exp_avg), operand(args.exp_avg_sq),
                                  operand(args.grad), operand(args.model_param)});
      for_elements<width>(
          cuda_stream(stream), n, cut,
          AdamW<Grad, Model>{pointer<float>(args.main_param), pointer<float>(args.exp_avg),
                             pointer<float>(args.exp_avg_sq), pointer<Grad>(args.grad),
                             pointer<Model>(args.model_param), args.grad_scale, AdamWCoefficients(args)});
    });
  });
}

}  // namespace zero1::cuda
