// Causal multi-head attention: every (sequence, head) is one work item of small fp32 matrix products.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/device/cpu/checks.h"
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/vec.h"
#include "core/device/cpu/vector_math.h"

namespace zero1::cpu {

namespace {

/// Rows of queries that are computed together. Keys after a block's last row are never touched.
constexpr std::int64_t query_block = 64;

/// dst[t, :] = src[t * stride, :] for rows of `width`, widened.
template <class T>
void gather_rows(float* dst, const T* src, std::int64_t rows, std::int64_t width, std::int64_t stride) {
  for (std::int64_t t = 0; t < rows; ++t) {
    for_lanes(0, width, [&](std::int64_t c, auto part) {
      store(dst + t * width + c, load(src + t * stride + c, part), part);
    });
  }
}

template <class T>
void scatter_rows(T* dst, const float* src, std::int64_t rows, std::int64_t width, std::int64_t stride) {
  for (std::int64_t t = 0; t < rows; ++t) {
    for_lanes(0, width, [&](std::int64_t c, auto part) {
      store(dst + t * stride + c, load(src + t * width + c, part), part);
    });
  }
}

/// row[0, visible) becomes its softmax, row[visible, padded) zero.
void softmax_row(float* row, std::int64_t visible, std::int64_t padded) {
  std::fill(row + visible, row + padded, -std::numeric_limits<float>::infinity());
  Vec largest = splat(-std::numeric_limits<float>::infinity());
  for_lanes(0, visible, [&](std::int64_t i, auto part) {
    Vec v = load(row + i, part);
    if constexpr (std::is_same_v<decltype(part), FirstLanes>) {
      for (int lane = part.count; lane < lanes; ++lane) v[lane] = -std::numeric_limits<float>::infinity();
    }
    largest = max(v, largest);
  });
  const float top = max(largest);
  Vec acc{};
  for_lanes(0, padded, [&](std::int64_t i, auto part) {
    Vec e = exp(load(row + i, part) - top);
    if constexpr (std::is_same_v<decltype(part), FirstLanes>) {
      for (int lane = part.count; lane < lanes; ++lane) e[lane] = 0;
    }
    acc += e;
    store(row + i, e, part);
  });
  const float factor = 1.0F / sum(acc);
  for_lanes(0, visible,
            [&](std::int64_t i, auto part) { store(row + i, load(row + i, part) * factor, part); });
}

struct HeadPlace {
  std::int64_t qkv;  ///< of the head's first q element
  std::int64_t out;
  std::int64_t probs;
};

HeadPlace place(const AttentionShape& s, std::int64_t item) {
  const std::int64_t sequence = item / s.heads, head = item % s.heads;
  const std::int64_t width = s.heads * s.head_dim;
  return {sequence * s.seq_len * 3 * width + head * s.head_dim,
          sequence * s.seq_len * width + head * s.head_dim, item * s.seq_len * s.seq_len};
}

template <class T>
void forward_head(T* out, T* probs, const T* qkv, const AttentionShape& s, Scratch& scratch) {
  const std::int64_t t = s.seq_len, d = s.head_dim, width = s.heads * d;
  float* q = scratch.floats(0, t * d);
  float* k = scratch.floats(1, t * d);
  float* v = scratch.floats(2, t * d);
  float* result = scratch.floats(3, t * d);
  float* scores = scratch.floats(4, query_block * t);
  gather_rows(q, qkv, t, d, 3 * width);
  gather_rows(k, qkv + width, t, d, 3 * width);
  gather_rows(v, qkv + 2 * width, t, d, 3 * width);
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  for (std::int64_t start = 0; start < t; start += query_block) {
    const std::int64_t rows = std::min(query_block, t - start), visible = start + rows;
    sgemm(false, true, rows, visible, d, scale, q + start * d, d, k, d, 0, scores, t);
    for (std::int64_t i = 0; i < rows; ++i) {
      float* row = scores + i * t;
      softmax_row(row, start + i + 1, t);
      T* saved = probs + (start + i) * t;
      for_lanes(0, t, [&](std::int64_t j, auto part) {
        store(saved + j, load(row + j, part), part);
        store(row + j, load(saved + j, part), part);  // what backward will see
      });
    }
    sgemm(false, false, rows, d, visible, 1, scores, t, v, d, 0, result + start * d, d);
  }
  scatter_rows(out, result, t, d, width);
}

template <class T>
void backward_head(T* d_qkv, const T* d_out, const T* probs, const T* qkv, const AttentionShape& s,
                   Scratch& scratch) {
  const std::int64_t t = s.seq_len, d = s.head_dim, width = s.heads * d;
  float* q = scratch.floats(0, t * d);
  float* k = scratch.floats(1, t * d);
  float* v = scratch.floats(2, t * d);
  float* dout = scratch.floats(3, t * d);
  float* grads = scratch.floats(4, 3 * t * d);
  float* dq = grads;
  float* dk = grads + t * d;
  float* dv = grads + 2 * t * d;
  float* p = scratch.floats(5, query_block * t);
  float* dp = scratch.floats(6, query_block * t);
  gather_rows(q, qkv, t, d, 3 * width);
  gather_rows(k, qkv + width, t, d, 3 * width);
  gather_rows(v, qkv + 2 * width, t, d, 3 * width);
  gather_rows(dout, d_out, t, d, width);
  std::fill(dk, dk + 2 * t * d, 0.0F);
  const float scale = 1.0F / std::sqrt(static_cast<float>(d));
  for (std::int64_t start = 0; start < t; start += query_block) {
    const std::int64_t rows = std::min(query_block, t - start), visible = start + rows;
    gather_rows(p, probs + start * t, rows, visible, t);
    sgemm(true, false, visible, d, rows, 1, p, visible, dout + start * d, d, 1, dv, d);
    sgemm(false, true, rows, visible, d, 1, dout + start * d, d, v, d, 0, dp, visible);
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* pr = p + i * visible;
      float* dpr = dp + i * visible;
      Vec acc{};
      for_lanes(0, visible,
                [&](std::int64_t j, auto part) { acc += load(pr + j, part) * load(dpr + j, part); });
      const float dot = sum(acc);
      for_lanes(0, visible, [&](std::int64_t j, auto part) {
        store(dpr + j, load(pr + j, part) * (load(dpr + j, part) - dot), part);
      });
    }
    sgemm(false, false, rows, d, visible, scale, dp, visible, k, d, 0, dq + start * d, d);
    sgemm(true, false, visible, d, rows, scale, dp, visible, q + start * d, d, 1, dk, d);
  }
  scatter_rows(d_qkv, dq, t, d, 3 * width);
  scatter_rows(d_qkv + width, dk, t, d, 3 * width);
  scatter_rows(d_qkv + 2 * width, dv, t, d, 3 * width);
}

void check_shape(const char* op, const AttentionShape& s) {
  if (s.batch < 0 || s.seq_len < 0 || s.heads < 0 || s.head_dim < 0)
    reject(op, "a size of the shape is negative");
}

}  // namespace

void CpuOps::attention_forward(Stream& stream, TensorView out, TensorView probs, ConstTensorView qkv,
                               const AttentionShape& s) {
  constexpr auto op = "attention_forward";
  check_shape(op, s);
  const std::int64_t elems = s.batch * s.seq_len * s.heads * s.head_dim;
  check_numel(op, "out", out, elems);
  check(op, "qkv", qkv, out.dtype, 3 * elems);
  check(op, "probs", probs, out.dtype, s.batch * s.heads * s.seq_len * s.seq_len);
  visit_low(op, "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      use_threads(workers.threads());
      workers.for_each(s.batch * s.heads, [&](std::int64_t item, Scratch& scratch) {
        const HeadPlace at = place(s, item);
        forward_head(out.as<T>() + at.out, probs.as<T>() + at.probs, qkv.as<T>() + at.qkv, s, scratch);
      });
    });
  });
}

void CpuOps::attention_backward(Stream& stream, TensorView d_qkv, TensorView scratch_view,
                                ConstTensorView d_out, ConstTensorView probs, ConstTensorView qkv,
                                const AttentionShape& s) {
  constexpr auto op = "attention_backward";
  check_shape(op, s);
  const std::int64_t elems = s.batch * s.seq_len * s.heads * s.head_dim;
  check_numel(op, "d_qkv", d_qkv, 3 * elems);
  check(op, "scratch", scratch_view, DType::fp32, attention_scratch_elems(s));
  check(op, "d_out", d_out, d_qkv.dtype, elems);
  check(op, "qkv", qkv, d_qkv.dtype, 3 * elems);
  check(op, "probs", probs, d_qkv.dtype, s.batch * s.heads * s.seq_len * s.seq_len);
  visit_low(op, "d_qkv", d_qkv.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      use_threads(workers.threads());
      workers.for_each(s.batch * s.heads, [&](std::int64_t item, Scratch& scratch) {
        const HeadPlace at = place(s, item);
        backward_head(d_qkv.as<T>() + at.qkv, d_out.as<T>() + at.out, probs.as<T>() + at.probs,
                      qkv.as<T>() + at.qkv, s, scratch);
      });
    });
  });
}

/// The workers' own scratch is enough here.
std::int64_t CpuOps::attention_scratch_elems(const AttentionShape&) const {
  return 0;
}

}  // namespace zero1::cpu
