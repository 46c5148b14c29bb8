#include "core/comm/local/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace zero1::local {
namespace {

/// Elements that one pass accumulates: 4 KiB of fp32, so that the accumulators stay in the L1 cache while
/// the inputs stream past, and each stream is left for no longer than the prefetcher remembers it.
constexpr std::int64_t block_elems = 1024;

template <class T>
struct Accumulator {
  using Type = float;
};
template <>
struct Accumulator<double> {
  using Type = double;
};

template <class T, class A>
void widen(A* out, const T* in, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) out[i] = static_cast<A>(in[i]);
}

template <class T, class A>
void narrow(T* out, const A* in, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) out[i] = static_cast<T>(in[i]);
}

#if defined(__F16C__)
// The processor converts eight at a time to the same bits; its tail goes the general way.
template <>
void widen(float* out, const Float16* in, std::int64_t numel) {
  std::int64_t i = 0;
  for (; i + 8 <= numel; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  }
  for (; i < numel; ++i) out[i] = static_cast<float>(in[i]);
}

template <>
void narrow(Float16* out, const float* in, std::int64_t numel) {
  std::int64_t i = 0;
  for (; i + 8 <= numel; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
  for (; i < numel; ++i) out[i] = Float16(in[i]);
}
#endif

/// A NaN on either side wins: comparisons with it are false, so each needs its own question.
template <class A>
A max_or_nan(A a, A b) {
  return b > a || b != b ? b : a;
}

template <ReduceOp op, class A>
A combined(A a, A b) {
  return op == ReduceOp::max ? max_or_nan(a, b) : a + b;
}

/// acc = acc + in.
template <ReduceOp op, class T, class A>
void combine(A* __restrict acc, const T* __restrict in, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) acc[i] = combined<op>(acc[i], static_cast<A>(in[i]));
}

/// acc = a + b: the first two inputs in one pass.
template <ReduceOp op, class T, class A>
void combine_first(A* __restrict acc, const T* a, const T* b, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    acc[i] = combined<op>(static_cast<A>(a[i]), static_cast<A>(b[i]));
  }
}

/// acc = (acc + a) + b: two streams at once keep more of the memory busy.
template <ReduceOp op, class T, class A>
void combine_two(A* __restrict acc, const T* a, const T* b, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    acc[i] = combined<op>(combined<op>(acc[i], static_cast<A>(a[i])), static_cast<A>(b[i]));
  }
}

/// What the loops above read of an input block. Compilers turn bf16 to fp32 within them, but not fp16:
/// its blocks are widened into `scratch` first.
template <class T, class A>
const auto* operand(const T* in, A* scratch, std::int64_t count) {
  if constexpr (std::is_same_v<T, Float16>) {
    widen(scratch, in, count);
    return static_cast<const A*>(scratch);
  } else {
    return in;
  }
}

/// acc = the elements [start, start + count) of all inputs, combined in rank order.
template <ReduceOp op, class T, class A>
void accumulate(A* acc, std::span<const void* const> inputs, std::int64_t start, std::int64_t count) {
  alignas(64) A scratch_a[block_elems];
  alignas(64) A scratch_b[block_elems];
  const auto input = [&](std::size_t rank, A* scratch) {
    return operand(static_cast<const T*>(inputs[rank]) + start, scratch, count);
  };
  if (inputs.size() == 1) return widen(acc, static_cast<const T*>(inputs[0]) + start, count);
  combine_first<op>(acc, input(0, scratch_a), input(1, scratch_b), count);
  std::size_t rank = 2;
  for (; rank + 2 <= inputs.size(); rank += 2) {
    combine_two<op>(acc, input(rank, scratch_a), input(rank + 1, scratch_b), count);
  }
  if (rank < inputs.size()) combine<op>(acc, input(rank, scratch_a), count);
}

template <ReduceOp op, class T>
void reduce_blocks(std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t numel) {
  using A = typename Accumulator<T>::Type;
  alignas(64) A acc[block_elems];
  const A ranks = static_cast<A>(inputs.size());
  for (std::int64_t start = 0; start < numel; start += block_elems) {
    const std::int64_t count = std::min(block_elems, numel - start);
    accumulate<op, T>(acc, inputs, start, count);
    if constexpr (op == ReduceOp::average) {
      for (std::int64_t i = 0; i < count; ++i) acc[i] /= ranks;
    }
    T* first = static_cast<T*>(outputs[0]) + start;
    narrow(first, acc, count);
    for (void* output : outputs.subspan(1)) {
      std::memcpy(static_cast<T*>(output) + start, first, static_cast<std::size_t>(count) * sizeof(T));
    }
  }
}

template <class T>
void reduce_typed(ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
                  std::int64_t numel) {
  switch (op) {
    case ReduceOp::sum: return reduce_blocks<ReduceOp::sum, T>(inputs, outputs, numel);
    case ReduceOp::average: return reduce_blocks<ReduceOp::average, T>(inputs, outputs, numel);
    case ReduceOp::max: return reduce_blocks<ReduceOp::max, T>(inputs, outputs, numel);
  }
}

}  // namespace

void reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
            std::int64_t numel) {
  if (numel == 0) return;
  visit_dtype(dtype, [&](auto element) { reduce_typed<decltype(element)>(op, inputs, outputs, numel); });
}

}  // namespace zero1::local
