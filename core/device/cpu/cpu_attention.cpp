// Causal multi-head attention. Every (sequence, head) is one work item; inside it, blocks of queries are
// multiplied with the keys up to the block's end, so that nearly half of the work is never done.
//
// Products run on the stored elements where the machine multiplies them (fp32, bf16), in place with row
// strides; else (fp16) on fp32 copies of the head.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/vec.h"
#include "core/device/cpu/vector_math.h"

namespace zero1::cpu {

namespace {

constexpr std::int64_t query_block = 64;

/// Rows of one head: `stride` elements apart.
template <class E>
struct Rows {
  E* data;
  std::int64_t stride;
  E* row(std::int64_t t) const { return data + t * stride; }
};

template <class E>
using ConstRows = Rows<const E>;

template <class Dst, class Src>
void copy_rows(Rows<Dst> dst, Rows<Src> src, std::int64_t rows, std::int64_t width) {
  for (std::int64_t t = 0; t < rows; ++t) {
    for_lanes(0, width,
              [&](std::int64_t c, auto part) { store(dst.row(t) + c, load(src.row(t) + c, part), part); });
  }
}

/// A product of two blocks of rows: beta is 0 or 1.
template <class E, class Out>
struct BlockProduct {
  ProductCache& products;
  Scratch& scratch;
  bool transpose_a, transpose_b;

  void operator()(std::int64_t m, std::int64_t n, std::int64_t k, ConstRows<E> a, ConstRows<E> b, Rows<Out> c,
                  float beta = 0) const {
    ProductShape shape{m, n, k, transpose_a, transpose_b, a.stride, b.stride, c.stride};
    shape.in = dtype_of<E>();
    shape.out = dtype_of<Out>();
    shape.beta = beta;
    products.get(1, shape)(a.data, b.data, c.data, scratch, 7);
  }
};

/// probs[0, visible) = softmax(scale * scores), probs[visible, total) = 0.
template <class T>
void softmax_row(T* probs, float* scores, std::int64_t visible, std::int64_t total, float scale) {
  Vec largest = splat(-std::numeric_limits<float>::infinity());
  for_lanes(0, visible, [&](std::int64_t i, auto part) {
    largest = max(valid(load(scores + i, part), part, -std::numeric_limits<float>::infinity()), largest);
  });
  const float top = max(largest);
  Vec acc{};
  for_lanes(0, visible, [&](std::int64_t i, auto part) {
    const Vec e = exp((load(scores + i, part) - top) * scale);
    acc += valid(e, part, 0);
    store(scores + i, e, part);
  });
  const float factor = 1.0F / sum(acc);
  for_lanes(0, visible,
            [&](std::int64_t i, auto part) { store(probs + i, load(scores + i, part) * factor, part); });
  std::fill(probs + visible, probs + total, T{});
}

/// d_scores = scale * probs * (d_probs - probs · d_probs): backward of softmax(scale * scores).
template <class T, class E>
void softmax_row_backward(E* d_scores, const T* probs, const float* d_probs, std::int64_t visible,
                          float scale) {
  Vec acc{};
  for_lanes(0, visible,
            [&](std::int64_t j, auto part) { acc += load(probs + j, part) * load(d_probs + j, part); });
  const float dot = sum(acc);
  for_lanes(0, visible, [&](std::int64_t j, auto part) {
    store(d_scores + j, load(probs + j, part) * (load(d_probs + j, part) - dot) * scale, part);
  });
}

/// One head of one sequence, with products on elements E: T itself, or float for a T without products.
template <class T, class E>
class Head {
 public:
  Head(const AttentionShape& shape, std::int64_t item, ProductCache& products, Scratch& scratch)
      : t_(shape.seq_len),
        d_(shape.head_dim),
        width_(shape.heads * shape.head_dim),
        item_(item),
        first_row_(item / shape.heads * shape.seq_len),
        first_column_(item % shape.heads * shape.head_dim),
        scale_(1.0F / std::sqrt(static_cast<float>(shape.head_dim))),
        products_(products),
        scratch_(scratch) {}

  void forward(T* out, T* probs, const T* qkv) {
    const auto q = operand(qkv_rows(qkv, 0), 0), k = operand(qkv_rows(qkv, 1), 1),
               v = operand(qkv_rows(qkv, 2), 2);
    const Rows<T> result = out_rows(out);
    for (std::int64_t start = 0; start < t_; start += query_block) {
      const std::int64_t rows = std::min(query_block, t_ - start), visible = start + rows;
      const Rows<float> scores{scratch_.floats(3, rows * visible), visible};
      product<float>(false, true)(rows, visible, d_, {q.row(start), q.stride}, k, scores);
      const Rows<T> block{probs + (item_ * t_ + start) * t_, t_};
      for (std::int64_t i = 0; i < rows; ++i) {
        softmax_row(block.row(i), scores.row(i), start + i + 1, t_, scale_);
      }
      const auto weights = operand(ConstRows<T>{block.data, t_}, 4, rows, visible);
      const Rows<E> target = target_rows(Rows<T>{result.row(start), result.stride}, 5, rows);
      product<E>(false, false)(rows, d_, visible, weights, v, target);
      finish(Rows<T>{result.row(start), result.stride}, target, rows);
    }
  }

  void backward(T* d_qkv, const T* d_out, const T* probs, const T* qkv) {
    const auto q = operand(qkv_rows(qkv, 0), 0), k = operand(qkv_rows(qkv, 1), 1),
               v = operand(qkv_rows(qkv, 2), 2);
    const auto d_result = operand(out_rows(d_out), 3);
    const Rows<T> d_q = qkv_rows(d_qkv, 0);
    // Keys and values collect from all blocks, in fp32.
    float* sums = shared_sums();
    const Rows<float> d_k{sums, d_}, d_v{sums + t_ * d_, d_};
    for (std::int64_t start = 0; start < t_; start += query_block) {
      const std::int64_t rows = std::min(query_block, t_ - start), visible = start + rows;
      const ConstRows<T> saved{probs + (item_ * t_ + start) * t_, t_};
      const ConstRows<E> d_block{d_result.row(start), d_result.stride};
      product<float>(true, false)(visible, d_, rows, operand(saved, 4, rows, visible), d_block, d_v, 1);
      const Rows<float> d_probs{scratch_.floats(5, rows * visible), visible};
      product<float>(false, true)(rows, visible, d_, d_block, v, d_probs);
      const Rows<E> d_scores{scratch_.get<E>(4, rows * visible), visible};
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t seen = start + i + 1;
        softmax_row_backward(d_scores.row(i), saved.row(i), d_probs.row(i), seen, scale_);
        std::fill(d_scores.row(i) + seen, d_scores.row(i) + visible, E{});
      }
      const ConstRows<E> d_s{d_scores.data, visible};
      const Rows<E> target = target_rows(Rows<T>{d_q.row(start), d_q.stride}, 5, rows);
      product<E>(false, false)(rows, d_, visible, d_s, k, target);
      finish(Rows<T>{d_q.row(start), d_q.stride}, target, rows);
      product<float>(true, false)(visible, d_, rows, d_s, {q.row(start), q.stride}, d_k, 1);
    }
    copy_rows(qkv_rows(d_qkv, 1), d_k, t_, d_);
    copy_rows(qkv_rows(d_qkv, 2), d_v, t_, d_);
  }

 private:
  static constexpr bool native = std::is_same_v<T, E>;

  template <class Element>
  Rows<Element> qkv_rows(Element* qkv, int part) const {
    return {qkv + (first_row_ * 3 + part) * width_ + first_column_, 3 * width_};
  }
  template <class Element>
  Rows<Element> out_rows(Element* out) const {
    return {out + first_row_ * width_ + first_column_, width_};
  }

  template <class Out>
  BlockProduct<E, Out> product(bool transpose_a, bool transpose_b) const {
    return {products_, scratch_, transpose_a, transpose_b};
  }

  /// What a product reads: the rows themselves, or a widened copy in `slot`.
  ConstRows<E> operand(ConstRows<T> rows, int slot, std::int64_t count, std::int64_t width) const {
    if constexpr (native) {
      return rows;
    } else {
      const Rows<E> copy{scratch_.get<E>(slot, count * width), width};
      copy_rows(copy, rows, count, width);
      return {copy.data, width};
    }
  }
  ConstRows<E> operand(ConstRows<T> rows, int slot) const { return operand(rows, slot, t_, d_); }

  /// Where a product writes: the rows themselves, or a buffer that `finish` copies to them.
  Rows<E> target_rows(Rows<T> rows, int slot, std::int64_t count) const {
    if constexpr (native)
      return rows;
    else
      return {scratch_.get<E>(slot, count * d_), d_};
  }
  void finish(Rows<T> rows, Rows<E> target, std::int64_t count) const {
    if constexpr (!native) copy_rows(rows, target, count, d_);
  }

  float* shared_sums() const {
    float* sums = scratch_.floats(6, 2 * t_ * d_);
    std::fill(sums, sums + 2 * t_ * d_, 0.0F);
    return sums;
  }

  std::int64_t t_, d_, width_, item_, first_row_, first_column_;
  float scale_;
  ProductCache& products_;
  Scratch& scratch_;
};

/// Calls fn(head) for every head with products on T, or on float where T has none.
template <class T, class Fn>
void for_heads(Workers& workers, ProductCache& products, const AttentionShape& s, Fn&& fn) {
  use_threads(1);  // heads run side by side; one product stays on one thread
  [[maybe_unused]] const bool native = products.supports(dtype_of<T>());
  workers.for_each(s.batch * s.heads, [&](std::int64_t item, Scratch& scratch) {
    if constexpr (!std::is_same_v<T, float>) {
      if (!native) return fn(Head<T, float>(s, item, products, scratch));
    }
    fn(Head<T, T>(s, item, products, scratch));
  });
}

}  // namespace

void CpuOps::attention_forward(Stream& stream, TensorView out, TensorView probs, ConstTensorView qkv,
                               const AttentionShape& s) {
  constexpr auto op = "attention_forward";
  check_attention_forward(out, probs, qkv, s);
  const std::int64_t elems = out.numel;
  visit_low(op, "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    if (elems == 0) return;
    run(stream, [=, this](Workers& workers) {
      for_heads<T>(workers, products_, s,
                   [&](auto head) { head.forward(out.as<T>(), probs.as<T>(), qkv.as<T>()); });
    });
  });
}

void CpuOps::attention_backward(Stream& stream, TensorView d_qkv, TensorView scratch, ConstTensorView d_out,
                                ConstTensorView probs, ConstTensorView qkv, const AttentionShape& s) {
  constexpr auto op = "attention_backward";
  check_attention_backward(d_qkv, scratch, d_out, probs, qkv, s, attention_scratch_elems(s));
  const std::int64_t elems = d_out.numel;
  visit_low(op, "d_qkv", d_qkv.dtype, [&](auto type) {
    using T = decltype(type);
    if (elems == 0) return;
    run(stream, [=, this](Workers& workers) {
      for_heads<T>(workers, products_, s, [&](auto head) {
        head.backward(d_qkv.as<T>(), d_out.as<T>(), probs.as<T>(), qkv.as<T>());
      });
    });
  });
}

/// The workers' own scratch is enough here.
std::int64_t CpuOps::attention_scratch_elems(const AttentionShape&) const {
  return 0;
}

}  // namespace zero1::cpu
