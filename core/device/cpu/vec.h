// One register of fp32 lanes, and loops over arrays in steps of them.
//
// Loops end with a partial step that runs the same instructions on zero-filled lanes. An element's
// result therefore depends neither on its position nor on how a range is cut.
#pragma once

// The lanes of a register: wider vectors than the processor's are taken apart badly by compilers.
#if defined(__AVX512F__)
#define ZERO1_LANES 16
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define ZERO1_LANES 8
#else
#define ZERO1_LANES 4
#endif

#if ZERO1_LANES > 4
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/dtype.h"

namespace zero1::cpu {

inline constexpr int lanes = ZERO1_LANES;
using Vec = float __attribute__((vector_size(lanes * 4)));
using IntVec = std::int32_t __attribute__((vector_size(lanes * 4)));
using UintVec = std::uint32_t __attribute__((vector_size(lanes * 4)));
using HalfBits = std::uint16_t __attribute__((vector_size(lanes * 2)));

#define ZERO1_INLINE [[gnu::always_inline]] inline

#if ZERO1_LANES == 16
/// The mask of the zero-masking intrinsics: unlike the plain ones they need no undefined operand, about
/// which g++ 12 warns.
inline constexpr __mmask16 every_lane = 0xFFFF;
#endif

ZERO1_INLINE Vec splat(float value) {
  return Vec{} + value;
}
ZERO1_INLINE UintVec bits_of(Vec v) {
  return std::bit_cast<UintVec>(v);
}
ZERO1_INLINE Vec from_bits(UintVec v) {
  return std::bit_cast<Vec>(v);
}

/// The larger and the smaller of each pair; a NaN in `a` is kept, one in `b` is not.
ZERO1_INLINE Vec max(Vec a, Vec b) {
  return a < b ? b : a;
}
ZERO1_INLINE Vec min(Vec a, Vec b) {
  return a > b ? b : a;
}

/// a * b + c, rounded once where the processor can.
ZERO1_INLINE Vec fma(Vec a, Vec b, Vec c) {
#if ZERO1_LANES == 16
  return std::bit_cast<Vec>(
      _mm512_fmadd_ps(std::bit_cast<__m512>(a), std::bit_cast<__m512>(b), std::bit_cast<__m512>(c)));
#elif ZERO1_LANES == 8
  return std::bit_cast<Vec>(
      _mm256_fmadd_ps(std::bit_cast<__m256>(a), std::bit_cast<__m256>(b), std::bit_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}

// ---- half a register's lanes as doubles ----

inline constexpr int half_lanes = lanes / 2;
using Doubles = double __attribute__((vector_size(half_lanes * 8)));

/// The lower and the upper half of the lanes.
ZERO1_INLINE void widen_to_doubles(Vec v, Doubles& lower, Doubles& upper) {
  using HalfVec = float __attribute__((vector_size(half_lanes * 4)));
  HalfVec halves[2];
  std::memcpy(halves, &v, sizeof v);
#if ZERO1_LANES == 16  // g++ 12 splits the generic conversion
  constexpr __mmask8 every_double = 0xFF;
  lower = std::bit_cast<Doubles>(_mm512_maskz_cvtps_pd(every_double, std::bit_cast<__m256>(halves[0])));
  upper = std::bit_cast<Doubles>(_mm512_maskz_cvtps_pd(every_double, std::bit_cast<__m256>(halves[1])));
#else
  lower = __builtin_convertvector(halves[0], Doubles);
  upper = __builtin_convertvector(halves[1], Doubles);
#endif
}

// ---- a register of bf16 or fp16 elements ----

template <class T>
ZERO1_INLINE Vec unpack(HalfBits half);
template <class T>
ZERO1_INLINE HalfBits pack(Vec v);

template <>
ZERO1_INLINE Vec unpack<BFloat16>(HalfBits half) {
#if ZERO1_LANES == 16  // g++ 12 splits the generic conversions
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(every_lane, std::bit_cast<__m256i>(half));
  return from_bits(std::bit_cast<UintVec>(wide) << 16);
#elif ZERO1_LANES == 8
  return from_bits(std::bit_cast<UintVec>(_mm256_cvtepu16_epi32(std::bit_cast<__m128i>(half))) << 16);
#else
  return from_bits(__builtin_convertvector(half, UintVec) << 16);
#endif
}

/// A bf16 element is the upper half of its lane's result; the lower half is left as it comes. Rounds to
/// nearest even as BFloat16(float) does, NaN included.
ZERO1_INLINE UintVec rounded_to_bf16(Vec v) {
  const UintVec u = bits_of(v);
  const UintVec rounded = u + 0x7FFFu + ((u >> 16) & 1u);
  const UintVec quiet_nan = u | 0x00400000u;
  return v == v ? rounded : quiet_nan;
}

template <>
ZERO1_INLINE HalfBits pack<BFloat16>(Vec v) {
#if defined(__AVX512BF16__)
  // The instruction agrees, except that it takes subnormal numbers for zero.
  const auto magnitude = std::bit_cast<__m512i>(bits_of(v) & 0x7FFFFFFFu);
  const __m512i below = _mm512_sub_epi32(magnitude, _mm512_set1_epi32(1));
  if (_mm512_cmplt_epu32_mask(below, _mm512_set1_epi32(0x007FFFFF)) == 0) [[likely]] {
    return std::bit_cast<HalfBits>(_mm512_cvtneps_pbh(std::bit_cast<__m512>(v)));
  }
#endif
  const UintVec result = rounded_to_bf16(v) >> 16;
#if ZERO1_LANES == 16
  return std::bit_cast<HalfBits>(_mm512_maskz_cvtepi32_epi16(every_lane, std::bit_cast<__m512i>(result)));
#elif ZERO1_LANES == 8
  const auto wide = std::bit_cast<__m256i>(result);
  return std::bit_cast<HalfBits>(
      _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
#else
  return __builtin_convertvector(result, HalfBits);
#endif
}

template <>
ZERO1_INLINE Vec unpack<Float16>(HalfBits half) {
#if ZERO1_LANES == 16
  return std::bit_cast<Vec>(_mm512_maskz_cvtph_ps(every_lane, std::bit_cast<__m256i>(half)));
#elif ZERO1_LANES == 8
  return std::bit_cast<Vec>(_mm256_cvtph_ps(std::bit_cast<__m128i>(half)));
#else
  Vec v;
  for (int i = 0; i < lanes; ++i) {
    Float16 element;
    element.bits = half[i];
    v[i] = static_cast<float>(element);
  }
  return v;
#endif
}

template <>
ZERO1_INLINE HalfBits pack<Float16>(Vec v) {
#if ZERO1_LANES == 16
  return std::bit_cast<HalfBits>(
      _mm512_maskz_cvtps_ph(every_lane, std::bit_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
#elif ZERO1_LANES == 8
  return std::bit_cast<HalfBits>(_mm256_cvtps_ph(std::bit_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
#else
  HalfBits half;
  for (int i = 0; i < lanes; ++i) half[i] = Float16(v[i]).bits;
  return half;
#endif
}

// ---- arrays ----

template <class T>
ZERO1_INLINE Vec widen(const T* p) {
  std::conditional_t<std::is_same_v<T, float>, Vec, HalfBits> stored;
  std::memcpy(&stored, p, sizeof stored);
  if constexpr (std::is_same_v<T, float>)
    return stored;
  else
    return unpack<T>(stored);
}

template <class T>
ZERO1_INLINE void narrow(T* p, Vec v) {
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(p, &v, sizeof v);
  } else {
    const HalfBits half = pack<T>(v);
    std::memcpy(static_cast<void*>(p), &half, sizeof half);
  }
}

/// `v` rounded to T and widened again.
template <class T>
ZERO1_INLINE Vec as_stored(Vec v) {
  if constexpr (std::is_same_v<T, float>)
    return v;
  else
    return unpack<T>(pack<T>(v));
}

/// A step over all lanes, and one over the first `count` of them.
struct AllLanes {};
struct FirstLanes {
  int count;
#if ZERO1_LANES == 16
  __mmask16 mask() const {
    return static_cast<__mmask16>((1u << count) - 1u);
  }
#endif
};

template <class T>
ZERO1_INLINE Vec load(const T* p, AllLanes) {
  return widen(p);
}
template <class T>
ZERO1_INLINE Vec load(const T* p, FirstLanes part) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<Vec>(_mm512_maskz_loadu_ps(part.mask(), p));
  else
    return unpack<T>(std::bit_cast<HalfBits>(_mm256_maskz_loadu_epi16(part.mask(), p)));
#else
  T padded[lanes] = {};
  std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(T));
  return widen(padded);
#endif
}
template <class T>
ZERO1_INLINE void store(T* p, Vec v, AllLanes) {
  narrow(p, v);
}
template <class T>
ZERO1_INLINE void store(T* p, Vec v, FirstLanes part) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_same_v<T, float>)
    _mm512_mask_storeu_ps(p, part.mask(), std::bit_cast<__m512>(v));
  else
    _mm256_mask_storeu_epi16(p, part.mask(), std::bit_cast<__m256i>(pack<T>(v)));
#else
  T padded[lanes];
  narrow(padded, v);
  std::memcpy(static_cast<void*>(p), padded, static_cast<std::size_t>(part.count) * sizeof(T));
#endif
}

/// Asks for what a loop will read 4 KiB behind p, past the end of its array too. For loops that compute so
/// much per element that the processor does not look far enough ahead by itself.
template <class T>
ZERO1_INLINE void prefetch(const T* p) {
  __builtin_prefetch(reinterpret_cast<const char*>(p) + 4096);
}

/// A step over twice the lanes, for loops over bf16 that treat all elements alike: the even ones in one
/// register and the odd ones in another, so that none has to change its lane.
struct AllPairs {};
struct VecPair {
  Vec even, odd;
};

ZERO1_INLINE VecPair load(const BFloat16* p, AllPairs) {
  UintVec both;
  std::memcpy(&both, p, sizeof both);
  return {from_bits(both << 16), from_bits(both & 0xFFFF0000u)};
}
ZERO1_INLINE void store(BFloat16* p, VecPair v, AllPairs) {
  const UintVec both = (rounded_to_bf16(v.even) >> 16) | (rounded_to_bf16(v.odd) & 0xFFFF0000u);
  std::memcpy(static_cast<void*>(p), &both, sizeof both);
}
/// The same elements on their way through fp32, in the order of the registers.
ZERO1_INLINE VecPair load(const float* p, AllPairs) {
  return {widen(p), widen(p + lanes)};
}
ZERO1_INLINE void store(float* p, VecPair v, AllPairs) {
  narrow(p, v.even);
  narrow(p + lanes, v.odd);
}

/// memcpy for more than the caches hold: past them where the processor can, which spares reading what is
/// overwritten.
inline void copy_past_caches(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t step = sizeof(Vec);
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
#if ZERO1_LANES > 4 || defined(__SSE2__)
  const std::size_t head = std::min(bytes, (step - reinterpret_cast<std::uintptr_t>(out) % step) % step);
  std::memcpy(out, in, head);
  out += head, in += head, bytes -= head;
  for (; bytes >= step; out += step, in += step, bytes -= step) {
    prefetch(in);
    Vec v;
    std::memcpy(&v, in, step);
    auto* lanes_out = reinterpret_cast<float*>(out);
#if ZERO1_LANES == 16
    _mm512_stream_ps(lanes_out, std::bit_cast<__m512>(v));
#elif ZERO1_LANES == 8
    _mm256_stream_ps(lanes_out, std::bit_cast<__m256>(v));
#else
    _mm_stream_ps(lanes_out, std::bit_cast<__m128>(v));
#endif
  }
  _mm_sfence();
#endif
  std::memcpy(out, in, bytes);
}

/// Calls body(i, AllLanes or FirstLanes) for steps that tile [begin, end).
template <class Body>
ZERO1_INLINE void for_lanes(std::int64_t begin, std::int64_t end, Body&& body) {
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) body(i, AllLanes{});
  if (i < end) body(i, FirstLanes{static_cast<int>(end - i)});
}

/// Lanes beyond a partial step hold what zeros gave; `neutral` there keeps them out of a reduction.
ZERO1_INLINE Vec valid(Vec v, AllLanes, float) {
  return v;
}
ZERO1_INLINE Vec valid(Vec v, FirstLanes part, float neutral) {
#if ZERO1_LANES == 16
  return std::bit_cast<Vec>(
      _mm512_mask_mov_ps(_mm512_set1_ps(neutral), part.mask(), std::bit_cast<__m512>(v)));
#else
  for (int lane = part.count; lane < lanes; ++lane) v[lane] = neutral;
  return v;
#endif
}

/// The sum of all lanes, halves first.
ZERO1_INLINE float sum(Vec v) {
  float x[lanes];
  std::memcpy(x, &v, sizeof v);
  for (int width = lanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) x[i] += x[i + width];
  }
  return x[0];
}

/// The largest lane; NaN if any lane is.
ZERO1_INLINE float max(Vec v) {
  float result = v[0];
  for (int i = 1; i < lanes; ++i) {
    const float x = v[i];
    result = (result < x || x != x) ? x : result;
  }
  return result;
}

}  // namespace zero1::cpu
