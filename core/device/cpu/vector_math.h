// Exponential, square root and GELU on vectors.
#pragma once

#include <cmath>

#include "core/device/cpu/vec.h"

namespace zero1::cpu {

ZERO1_INLINE Vec sqrt(Vec v) {
#if ZERO1_LANES == 16
  return std::bit_cast<Vec>(_mm512_maskz_sqrt_ps(every_lane, std::bit_cast<__m512>(v)));
#elif ZERO1_LANES == 8
  return std::bit_cast<Vec>(_mm256_sqrt_ps(std::bit_cast<__m256>(v)));
#else
  for (int i = 0; i < lanes; ++i) v[i] = std::sqrt(v[i]);
  return v;
#endif
}

/// x * 2^n for integers n of [-150, 129].
ZERO1_INLINE Vec scale_by_power(Vec x, Vec n) {
#if ZERO1_LANES == 16
  return std::bit_cast<Vec>(
      _mm512_maskz_scalef_ps(every_lane, std::bit_cast<__m512>(x), std::bit_cast<__m512>(n)));
#else
  // In two factors, as 2^n alone may be out of range.
  const IntVec exponent = __builtin_convertvector(n, IntVec);
  const IntVec half = exponent >> 1;
  return x * std::bit_cast<Vec>((half + 127) << 23) * std::bit_cast<Vec>((exponent - half + 127) << 23);
#endif
}

/// e^x for every lane, at most 2 ulp from exact (of the smallest normal number below it). Underflow is
/// gradual and ends in 0, overflow gives infinity, a NaN is kept.
ZERO1_INLINE Vec exp(Vec x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, the first of which times n is exact.
  constexpr float log2_e = 1.44269504F, ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
  constexpr float rounding = 0x1.8p23F;  // adding it leaves the nearest integer in the low mantissa
  const Vec clamped = min(max(x, splat(-104.0F)), splat(89.0F));
  const Vec n = fma(clamped, splat(log2_e), splat(rounding)) - rounding;
  const Vec r = fma(n, splat(-ln2_low), fma(n, splat(-ln2_high), clamped));
  // e^r = 1 + r + r² p(r); p is a minimax polynomial on the interval of r.
  Vec p = fma(r, splat(1.9875691500e-4F), splat(1.3981999507e-3F));
  p = fma(p, r, splat(8.3334519073e-3F));
  p = fma(p, r, splat(4.1665795894e-2F));
  p = fma(p, r, splat(1.6666665459e-1F));
  p = fma(p, r, splat(5.0000001201e-1F));
  return scale_by_power(fma(p, r * r, r) + 1.0F, n);
}

/// gelu_tanh(x) = x * gate(x), gate = (1 + tanh(u)) / 2 = 1 / (1 + e^(-2u)) with
/// u = √(2/π) (x + 0.044715 x³). Beyond |x| = 16 the gate is 0 or 1 in fp32 and its slope is 0; the
/// clamp keeps x³ finite there.
struct Gelu {
  static constexpr float two_u_scale = 2 * 0.797884561F;
  static constexpr float cubic = 0.044715F;

  Vec clamped;
  Vec gate;

  ZERO1_INLINE explicit Gelu(Vec x) {
    clamped = min(max(x, splat(-16.0F)), splat(16.0F));
    const Vec polynomial = fma(clamped * clamped, splat(cubic), splat(1.0F));
    gate = 1.0F / (exp(clamped * polynomial * -two_u_scale) + 1.0F);
  }

  /// gate + x gate', where gate' = gate (1 - gate) · 2u'.
  ZERO1_INLINE Vec slope() const {
    const Vec two_du = fma(clamped * clamped, splat(3 * cubic * two_u_scale), splat(two_u_scale));
    return fma(clamped * two_du, gate * (1.0F - gate), gate);
  }
};

}  // namespace zero1::cpu
