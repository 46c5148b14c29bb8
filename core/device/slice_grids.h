// The grids of Ops::sum_of_squares, the same on every device.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ZERO1_HOST_DEVICE __host__ __device__
#else
#define ZERO1_HOST_DEVICE
#endif

namespace zero1 {

/// Three grids that cut a square q <= bound² into slices whose sums are exact.
///
/// Let bound < 2^e, with e a multiple of 4 so that most steps of a training run share their grids with the
/// step before; E = 2e, so q <= 2^E; and let N = 2^L >= 8 bound the number of summands. In fp64, x² of an
/// fp32 x is exact (48 bits). Slice 1 is q rounded to a multiple of g1 = 2^(E+L-53): at most 2^E, so every
/// sum of at most N slices is a multiple of g1 of at most 2^(E+L) = 2^53 g1: exact. The rest q - s1 is exact,
/// too, as it needs no more bits than q, and is at most 2^(E') = g1/2 in magnitude, E' = E+L-54. Slices 2 and
/// 3 cut it in the same manner. Exact sums do not depend on their order. What is dropped is at most g3/2 per
/// element, N g3/2 = 2^(E+4L-162) in all; when the bound is tight, the sum is at least 2^(E-8), so the
/// relative error is below 2^(4L-154): 2^-34 for 2^30 elements in the worst case, and far less where the
/// bound's element is not alone.
///
/// Rounding to a multiple of g: adding 1.5 * 2^52 g brings the sum into [2^52 g, 2^53 g), where
/// doubles are the multiples of g, as |q| <= 2^(53-L) g <= 2^50 g. Subtracting it again is exact.
struct SliceGrids {
  double magic[3];

  /// e of a positive bound: bounds of one exponent have the same grids.
  ZERO1_HOST_DEVICE static int exponent_of(double bound) {
    int exponent = 0;
    std::frexp(bound, &exponent);
    return (exponent + 1024 + 3) / 4 * 4 - 1024;  // upwards, the negative ones too
  }

  ZERO1_HOST_DEVICE SliceGrids(double bound, std::int64_t total_elems) {
    int log_elems = 3;
    while (log_elems < 62 && (std::int64_t{1} << log_elems) < total_elems) ++log_elems;
    int top = 2 * exponent_of(bound);
    for (double& m : magic) {
      const int grid = top + log_elems - 53;
      m = std::ldexp(1.5, 52 + grid);
      top = grid - 1;
    }
  }
};

}  // namespace zero1
