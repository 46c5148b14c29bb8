// Random numbers that are the same on every machine, compiler and standard library.
//
// The distributions of `<random>` are left to the library that implements them, so everything here is
// built from 64-bit integers and IEEE additions, multiplications, divisions and square roots alone.
#pragma once

#include <cmath>
#include <cstdint>

namespace zero1 {

/// The output function of SplitMix64 (Steele, Lea and Flood 2014): a bijection that scrambles 64 bits.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

/// A sequence of random numbers, chosen by a seed and the number of a stream; streams of one seed are
/// independent of each other. SplitMix64 underneath: a state is one word and a copy continues alike.
class RandomStream {
 public:
  explicit constexpr RandomStream(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(mix64(mix64(seed + golden_gamma) ^ (stream * golden_gamma))) {}

  constexpr std::uint64_t next() { return mix64(state_ += golden_gamma); }

  /// Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Uniform in [0, count), 0 < count < 2^32.
  constexpr std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(((next() >> 32) * static_cast<std::uint64_t>(count)) >> 32);
  }

 private:
  static constexpr std::uint64_t golden_gamma = 0x9E3779B97F4A7C15ULL;
  std::uint64_t state_;
};

/// ln(x) of a positive normal number, to within two units in the last place. std::log may differ in the
/// last bit from one C library to the next; this one is a fixed sequence of IEEE operations.
inline double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact: x = m · 2^exponent, m in [1/2, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // ln m = 2 atanh(z) with |z| < 0.172, so that z^27 is below the precision.
  constexpr double coefficients[] = {1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                     1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double series = 0;
  for (const double coefficient : coefficients) series = series * z2 + coefficient;
  return exponent * 0.69314718055994531 + 2 * z * series;
}

/// Standard normal numbers by Marsaglia's polar method: two of them from a point drawn in the unit disc.
class NormalStream {
 public:
  explicit NormalStream(RandomStream bits) : bits_(bits) {}

  double next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double u = 0, v = 0, s = 0;
    do {
      u = 2 * bits_.uniform() - 1;
      v = 2 * bits_.uniform() - 1;
      s = u * u + v * v;
    } while (s >= 1 || s == 0);
    const double radius = std::sqrt(-2 * portable_log(s) / s);
    spare_ = v * radius;
    has_spare_ = true;
    return u * radius;
  }

 private:
  RandomStream bits_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace zero1
