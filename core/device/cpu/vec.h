// Sixteen fp32 lanes, and loops over arrays in steps of them.
//
// Loops end with a partial step that runs the same instructions on zero-filled lanes. An element's
// result therefore depends neither on its position nor on how a range is cut.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/dtype.h"

namespace zero1::cpu {

inline constexpr int lanes = 16;
using Vec = float __attribute__((vector_size(64)));
using IntVec = std::int32_t __attribute__((vector_size(64)));
using UintVec = std::uint32_t __attribute__((vector_size(64)));
using HalfBits = std::uint16_t __attribute__((vector_size(32)));

#define ZERO1_INLINE [[gnu::always_inline]] inline

#if defined(__AVX512F__)
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

/// The IEEE maximum of each pair, except that a NaN in `a` is kept and one in `b` is not.
ZERO1_INLINE Vec max(Vec a, Vec b) {
  return a < b ? b : a;
}
ZERO1_INLINE Vec min(Vec a, Vec b) {
  return a > b ? b : a;
}

ZERO1_INLINE Vec widen(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

ZERO1_INLINE Vec widen(const BFloat16* p) {
  HalfBits half;
  std::memcpy(&half, p, sizeof half);
  return from_bits(__builtin_convertvector(half, UintVec) << 16);
}

ZERO1_INLINE Vec widen(const Float16* p) {
#if defined(__AVX512F__)
  return std::bit_cast<Vec>(
      _mm512_maskz_cvtph_ps(every_lane, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif defined(__F16C__)
  const __m256 low = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256 high = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)));
  Vec v;
  std::memcpy(&v, &low, sizeof low);
  std::memcpy(reinterpret_cast<char*>(&v) + sizeof low, &high, sizeof high);
  return v;
#else
  Vec v;
  for (int i = 0; i < lanes; ++i) v[i] = static_cast<float>(p[i]);
  return v;
#endif
}

ZERO1_INLINE void narrow(float* p, Vec v) {
  std::memcpy(p, &v, sizeof v);
}

/// Rounds to nearest even as BFloat16(float) does, NaN included.
ZERO1_INLINE void narrow(BFloat16* p, Vec v) {
  const UintVec u = bits_of(v);
  const UintVec rounded = u + 0x7FFFu + ((u >> 16) & 1u);
  const UintVec quiet_nan = u | 0x00400000u;
  const UintVec result = ((u & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded) >> 16;
  const HalfBits half = __builtin_convertvector(result, HalfBits);
  std::memcpy(static_cast<void*>(p), &half, sizeof half);
}

ZERO1_INLINE void narrow(Float16* p, Vec v) {
#if defined(__AVX512F__)
  const __m256i half = _mm512_maskz_cvtps_ph(every_lane, std::bit_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
#elif defined(__F16C__)
  __m256 part[2];
  std::memcpy(part, &v, sizeof v);
  for (int i = 0; i < 2; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8 * i),
                     _mm256_cvtps_ph(part[i], _MM_FROUND_TO_NEAREST_INT));
  }
#else
  for (int i = 0; i < lanes; ++i) p[i] = Float16(v[i]);
#endif
}

/// A step over all lanes, and one over the first `count` of them.
struct AllLanes {};
struct FirstLanes {
  int count;
};

template <class T>
ZERO1_INLINE Vec load(const T* p, AllLanes) {
  return widen(p);
}
template <class T>
ZERO1_INLINE Vec load(const T* p, FirstLanes part) {
  T padded[lanes] = {};
  std::memcpy(static_cast<void*>(padded), p, static_cast<std::size_t>(part.count) * sizeof(T));
  return widen(padded);
}
template <class T>
ZERO1_INLINE void store(T* p, Vec v, AllLanes) {
  narrow(p, v);
}
template <class T>
ZERO1_INLINE void store(T* p, Vec v, FirstLanes part) {
  T padded[lanes];
  narrow(padded, v);
  std::memcpy(static_cast<void*>(p), padded, static_cast<std::size_t>(part.count) * sizeof(T));
}

/// Calls body(i, AllLanes or FirstLanes) for steps that tile [begin, end).
template <class Body>
ZERO1_INLINE void for_lanes(std::int64_t begin, std::int64_t end, Body&& body) {
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) body(i, AllLanes{});
  if (i < end) body(i, FirstLanes{static_cast<int>(end - i)});
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

/// e^x for every lane: at most 2 ulp from exact between -87.3 and 88.7; 0 below, infinity above, NaN kept.
ZERO1_INLINE Vec exp(Vec x) {
  constexpr float log2e = 1.44269504F, ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
  const Vec clamped = min(max(x, splat(-88.0F)), splat(89.0F));
  constexpr float round_magic = 0x1.8p23F;  // adding it leaves the nearest integer in the low mantissa
  const Vec shifted = clamped * log2e + round_magic;
  const Vec n = shifted - round_magic;
  const Vec r = (clamped - n * ln2_high) - n * ln2_low;
  Vec p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  // 2^n in two factors: n = 128 is beyond the largest exponent.
  const IntVec exponent = __builtin_convertvector(n, IntVec);
  const IntVec half = exponent >> 1;
  const Vec scale1 = std::bit_cast<Vec>((half + 127) << 23);
  const Vec scale2 = std::bit_cast<Vec>((exponent - half + 127) << 23);
  Vec result = p * scale1 * scale2;
  result = x < -87.33654F ? splat(0.0F) : result;
  return x != x ? x : result;
}

}  // namespace zero1::cpu
