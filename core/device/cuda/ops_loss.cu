// Cross entropy. One block per row.
#include <cmath>

#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/reduce.cuh"
#include "core/device/cuda/rows.cuh"

namespace zero1::cuda {

namespace {

/// losses[row] = logsumexp(row) - row[target]; with Grad, the row becomes its gradient. Each thread sums
/// its exponentials in fp32, the block in fp64. In bf16 4 bytes per element must move, 2 without Grad: the
/// second and third look at the row finds it in the cache.
template <bool Grad, class T, class Logits>
__global__ void cross_entropy_kernel(double* losses, Logits* logits, const std::int32_t* targets,
                                     std::int64_t rows, std::int64_t vocab, float grad_scale, bool aligned) {
  constexpr int W = row_width<T>;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Logits* p = logits + row * vocab;
    const bool good = targets[row] >= 0 && targets[row] < vocab;
    const std::int64_t target = good ? targets[row] : 0;
    const float target_logit = to_float(p[target]);  // before anyone overwrites it: the sums are barriers
    float largest = -INFINITY;
    for_row<W>(vocab, [&](auto width, std::int64_t i) {
      const auto values = load_row<width()>(static_cast<const T*>(p) + i, aligned);
      for (int k = 0; k < width(); ++k) largest = fmaxf(largest, to_float(values.at[k]));
    });
    largest = block_max(largest, -INFINITY);
    float sum = 0;
    for_row<W>(vocab, [&](auto width, std::int64_t i) {
      const auto values = load_row<width()>(static_cast<const T*>(p) + i, aligned);
      for (int k = 0; k < width(); ++k) sum += expf(to_float(values.at[k]) - largest);
    });
    const double total = block_sum(static_cast<double>(sum));
    if (threadIdx.x == 0) {
      losses[row] = log(total) + static_cast<double>(largest) - static_cast<double>(target_logit);
    }
    if constexpr (Grad) {
      const auto factor = static_cast<float>(static_cast<double>(grad_scale) / total);
      for_row<W>(vocab, [&](auto width, std::int64_t i) {
        auto values = load_row<width()>(static_cast<const T*>(p) + i, aligned);
        for (int k = 0; k < width(); ++k) {
          const float softmax = expf(to_float(values.at[k]) - largest) * factor;
          values.at[k] = from_float<T>(i + k == target ? softmax - grad_scale : softmax);
        }
        store_row<width()>(p + i, values, aligned);
      });
    }
  }
}

/// loss_sum += Σ losses, in an order that depends on `rows` alone. One block.
__global__ void add_losses_kernel(double* loss_sum, const double* losses, std::int64_t rows) {
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += blockDim.x) sum += losses[row];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss_sum += sum;
}

template <bool Grad, class T, class Logits>
void queue(QueuedStream& stream, TensorView loss_sum, Logits* logits, const std::int32_t* targets,
           std::int64_t rows, std::int64_t vocab, float grad_scale) {
  if (rows == 0) return;
  stream.use_gpu();
  stream.faults().check(stream.handle(), targets, rows, vocab, TokenFault::target);
  auto* losses = static_cast<double*>(stream.scratch(rows * 8));
  launch(&cross_entropy_kernel<Grad, T, Logits>, row_blocks(rows), row_threads<T>(vocab), 0, stream.handle(),
         losses, logits, targets, rows, vocab, grad_scale, rows_aligned<T>(vocab, {logits}));
  launch(&add_losses_kernel, 1, threads_per_block, 0, stream.handle(), pointer<double>(loss_sum), losses,
         rows);
}

}  // namespace

void CudaOps::cross_entropy(Stream& stream, TensorView loss_sum, TensorView logits,
                            const std::int32_t* targets, std::int64_t rows, std::int64_t vocab,
                            float grad_scale) {
  check_cross_entropy("cross_entropy", loss_sum, logits, rows, vocab);
  visit_low("cross_entropy", "logits", logits.dtype, [&](auto type) {
    using T = decltype(type);
    queue<true, T>(cuda_stream(stream), loss_sum, pointer<T>(logits), targets, rows, vocab, grad_scale);
  });
}

void CudaOps::cross_entropy_loss(Stream& stream, TensorView loss_sum, ConstTensorView logits,
                                 const std::int32_t* targets, std::int64_t rows, std::int64_t vocab) {
  check_cross_entropy("cross_entropy_loss", loss_sum, logits, rows, vocab);
  visit_low("cross_entropy_loss", "logits", logits.dtype, [&](auto type) {
    using T = decltype(type);
    queue<false, T>(cuda_stream(stream), loss_sum, pointer<T>(logits), targets, rows, vocab, 0);
  });
}

}  // namespace zero1::cuda
