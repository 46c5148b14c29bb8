#include "core/comm/local/reduce.h"

#include <algorithm>
#include <cstring>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace zero1::local {
namespace {

/// Elements that one pass accumulates: 8 KiB of fp32, so that the accumulators stay in the L1 cache while
/// one input after the other streams past.
constexpr std::int64_t block_elems = 2048;

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
void combine(A* __restrict acc, const A* __restrict in, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    acc[i] = op == ReduceOp::max ? max_or_nan(acc[i], in[i]) : acc[i] + in[i];
  }
}

/// Adds a block of `in` to the accumulators. Low-precision elements are widened into a second block first;
/// it is as hot as the accumulators.
template <ReduceOp op, class T, class A>
void combine_block(A* acc, A* widened, const T* in, std::int64_t numel) {
  if constexpr (std::is_same_v<T, A>) {
    combine<op>(acc, in, numel);
  } else {
    widen(widened, in, numel);
    combine<op>(acc, widened, numel);
  }
}

template <ReduceOp op, class T>
void reduce_blocks(std::span<const void* const> inputs, std::span<void* const> outputs, std::int64_t numel) {
  using A = typename Accumulator<T>::Type;
  alignas(64) A acc[block_elems];
  alignas(64) A widened[block_elems];
  const A ranks = static_cast<A>(inputs.size());
  for (std::int64_t start = 0; start < numel; start += block_elems) {
    const std::int64_t count = std::min(block_elems, numel - start);
    widen(acc, static_cast<const T*>(inputs[0]) + start, count);
    for (const void* input : inputs.subspan(1)) {
      combine_block<op>(acc, widened, static_cast<const T*>(input) + start, count);
    }
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
