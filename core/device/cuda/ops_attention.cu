// Causal multi-head attention: products of all heads of one sequence at a time by cuBLAS, softmax by
// kernels of our own. One sequence at a time, so that fp32 scores take H·T² elements and not B times that.
#include <cmath>

#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/cuda_stream.h"
#include "core/device/cuda/reduce.cuh"
#include "core/device/cuda/rows.cuh"

namespace zero1::cuda {

namespace {

/// probs[row, :] = softmax(scale * scores[row, 0..i]), zero above the diagonal, where i = row % T. One
/// block per row.
template <class T>
__global__ void causal_softmax_kernel(T* probs, const float* scores, std::int64_t rows, std::int64_t seq_len,
                                      float scale) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* s = scores + row * seq_len;
    const std::int64_t visible = row % seq_len + 1;
    float largest = -INFINITY;
    for (std::int64_t j = threadIdx.x; j < visible; j += blockDim.x) largest = fmaxf(largest, s[j]);
    largest = block_max(largest, -INFINITY);
    float sum = 0;
    for (std::int64_t j = threadIdx.x; j < visible; j += blockDim.x) sum += expf((s[j] - largest) * scale);
    const float factor = 1.0F / block_sum(sum);
    for (std::int64_t j = threadIdx.x; j < seq_len; j += blockDim.x) {
      const float p = j < visible ? expf((s[j] - largest) * scale) * factor : 0.0F;
      probs[row * seq_len + j] = from_float<T>(p);
    }
  }
}

/// d_scores = scale * probs * (d_probs - probs · d_probs), zero above the diagonal.
template <class T>
__global__ void causal_softmax_backward_kernel(T* d_scores, const T* probs, const float* d_probs,
                                               std::int64_t rows, std::int64_t seq_len, float scale) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t start = row * seq_len, visible = row % seq_len + 1;
    float dot = 0;
    for (std::int64_t j = threadIdx.x; j < visible; j += blockDim.x) {
      dot += to_float(probs[start + j]) * d_probs[start + j];
    }
    dot = block_sum(dot);
    for (std::int64_t j = threadIdx.x; j < seq_len; j += blockDim.x) {
      const float d = to_float(probs[start + j]) * (d_probs[start + j] - dot) * scale;
      d_scores[start + j] = from_float<T>(j < visible ? d : 0.0F);
    }
  }
}

/// One sequence's tensors as operands of products over all its heads.
struct Heads {
  const AttentionShape& shape;
  DType dtype;
  std::int64_t sequence;

  std::int64_t width() const { return shape.heads * shape.head_dim; }
  std::int64_t square() const { return shape.seq_len * shape.seq_len; }
  std::int64_t rows() const { return shape.heads * shape.seq_len; }

  template <class Byte>
  Byte* at(Byte* tensor, std::int64_t element) const {
    return tensor + element * size_bytes(dtype);
  }
  /// q, k, v (part 0, 1, 2) of qkv.
  Product::Matrix qkv(const ConstTensorView& x, int part, bool transpose = false) const {
    const auto* base = static_cast<const char*>(x.data);
    return {at(base, (sequence * shape.seq_len * 3 + part) * width()), 3 * width(), shape.head_dim,
            transpose};
  }
  Product::Matrix out(const ConstTensorView& x) const {
    const auto* base = static_cast<const char*>(x.data);
    return {at(base, sequence * shape.seq_len * width()), width(), shape.head_dim, false};
  }
  /// A [H, T, T] tensor of all sequences.
  Product::Matrix squares(const ConstTensorView& x, bool transpose = false) const {
    const auto* base = static_cast<const char*>(x.data);
    return {at(base, sequence * shape.heads * square()), shape.seq_len, square(), transpose};
  }
  /// One of this sequence alone.
  Product::Matrix squares_alone(const void* x, bool transpose = false) const {
    return {x, shape.seq_len, square(), transpose};
  }
};

/// C = A · B for all heads.
Product product(const Heads& x, Product::Matrix a, Product::Matrix b, Product::Matrix c, std::int64_t n,
                std::int64_t k, DType out) {
  Product p;
  p.a = a;
  p.b = b;
  p.c = const_cast<void*>(c.data);  // Heads describes what is read and what is written in the same way
  p.c_row = c.row;
  p.c_next = c.next;
  p.m = x.shape.seq_len;
  p.n = n;
  p.k = k;
  p.count = x.shape.heads;
  p.in = x.dtype;
  p.out = out;
  return p;
}

unsigned softmax_threads(std::int64_t seq_len) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((seq_len + 31) / 32 * 32, 32, threads_per_block));
}

unsigned softmax_blocks(std::int64_t rows) {
  return static_cast<unsigned>(std::min<std::int64_t>(rows, 1 << 20));
}

float softmax_scale(const AttentionShape& s) {
  return 1.0F / std::sqrt(static_cast<float>(s.head_dim));
}

}  // namespace

void CudaOps::attention_forward(Stream& stream, TensorView out, TensorView probs, ConstTensorView qkv,
                                const AttentionShape& s) {
  check_attention_forward(out, probs, qkv, s);
  visit_low("attention_forward", "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    QueuedStream& ours = cuda_stream(stream);
    if (out.empty()) return;
    ours.use_gpu();
    auto* scores = static_cast<float*>(ours.scratch(s.heads * s.seq_len * s.seq_len * 4));
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const Heads heads{s, out.dtype, b};
      blas_.run(ours.handle(), product(heads, heads.qkv(qkv, 0), heads.qkv(qkv, 1, true),
                                       heads.squares_alone(scores), s.seq_len, s.head_dim, DType::fp32));
      T* weights = pointer<T>(probs) + b * s.heads * heads.square();
      launch(&causal_softmax_kernel<T>, softmax_blocks(heads.rows()), softmax_threads(s.seq_len), 0,
             ours.handle(), weights, scores, heads.rows(), s.seq_len, softmax_scale(s));
      blas_.run(ours.handle(), product(heads, heads.squares(probs), heads.qkv(qkv, 2), heads.out(out),
                                       s.head_dim, s.seq_len, out.dtype));
    }
  });
}

void CudaOps::attention_backward(Stream& stream, TensorView d_qkv, TensorView scratch, ConstTensorView d_out,
                                 ConstTensorView probs, ConstTensorView qkv, const AttentionShape& s) {
  check_attention_backward(d_qkv, scratch, d_out, probs, qkv, s, attention_scratch_elems(s));
  visit_low("attention_backward", "d_qkv", d_qkv.dtype, [&](auto type) {
    using T = decltype(type);
    QueuedStream& ours = cuda_stream(stream);
    if (d_out.empty()) return;
    ours.use_gpu();
    auto* d_probs = pointer<float>(scratch);
    auto* d_scores = reinterpret_cast<T*>(d_probs + s.heads * s.seq_len * s.seq_len);
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const Heads x{s, d_qkv.dtype, b};
      const auto run = [&](Product::Matrix left, Product::Matrix right, Product::Matrix result,
                           std::int64_t n, std::int64_t k, DType dtype) {
        blas_.run(ours.handle(), product(x, left, right, result, n, k, dtype));
      };
      run(x.squares(probs, true), x.out(d_out), x.qkv(d_qkv, 2), s.head_dim, s.seq_len, x.dtype);
      run(x.out(d_out), x.qkv(qkv, 2, true), x.squares_alone(d_probs), s.seq_len, s.head_dim, DType::fp32);
      launch(&causal_softmax_backward_kernel<T>, softmax_blocks(x.rows()), softmax_threads(s.seq_len), 0,
             ours.handle(), d_scores, pointer<T>(probs) + b * s.heads * x.square(), d_probs, x.rows(),
             s.seq_len, softmax_scale(s));
      run(x.squares_alone(d_scores), x.qkv(qkv, 1), x.qkv(d_qkv, 0), s.head_dim, s.seq_len, x.dtype);
      run(x.squares_alone(d_scores, true), x.qkv(qkv, 0), x.qkv(d_qkv, 1), s.head_dim, s.seq_len, x.dtype);
    }
  });
}

/// The gradients of one sequence's probabilities and scores.
std::int64_t CudaOps::attention_scratch_elems(const AttentionShape& s) const {
  return s.batch == 0 ? 0 : 2 * s.heads * s.seq_len * s.seq_len;
}

}  // namespace zero1::cuda
