// The sum of squares that does not depend on order or partition.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "core/device/slice_grids.h"
#include "device_harness.h"

namespace zero1::test {

/// The three slices after summing x in the given pieces.
inline std::vector<double> summed(Rig& rig, const Tensor& x, const std::vector<Range>& pieces, double bound,
                                  std::int64_t total_elems) {
  const Tensor out(rig, DType::fp64, std::vector<double>{0, 0, 0});
  const Tensor max_abs(rig, DType::fp64, std::vector<double>{bound});
  for (const Range& piece : pieces) {
    rig.ops.sum_of_squares(rig.stream, out, ConstTensorView(x.view()).slice(piece),
                           static_cast<const double*>(max_abs.view().data), total_elems);
  }
  return out.read();
}

inline std::vector<Range> random_cuts(std::int64_t numel, std::mt19937& engine) {
  std::vector<Range> pieces;
  for (std::int64_t start = 0; start < numel;) {
    const std::int64_t end = std::min<std::int64_t>(numel, start + 1 + engine() % (numel / 3 + 1));
    pieces.push_back({start, end});
    start = end;
  }
  std::shuffle(pieces.begin(), pieces.end(), engine);
  return pieces;
}

/// Gradients as they are (one scale) and as they should not be: magnitudes over many binades.
inline std::vector<double> wild_values(DType dtype, std::int64_t numel, unsigned seed) {
  auto values = random_values(dtype, numel, seed);
  std::mt19937 engine(seed);
  for (double& v : values) v = rounded(dtype, std::ldexp(v, -static_cast<int>(engine() % 12)));
  return values;
}

inline double largest(const std::vector<double>& values) {
  double result = 0;
  for (const double v : values) result = std::max(result, std::abs(v));
  return result;
}

TEST_CASE("sum_of_squares has the same bits for every order and partition") {
  on_each_backend([](Rig& rig) {
    std::mt19937 engine(11);
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t n : {1, 3, 5, 7, 100, 4097, 70001}) {
        auto values = wild_values(dtype, n, 12);
        const double bound = largest(values);
        const std::vector<double> expected = summed(rig, Tensor(rig, dtype, values), {{0, n}}, bound, n);
        for (int repeat = 0; repeat < 5; ++repeat) {
          std::shuffle(values.begin(), values.end(), engine);
          check_equal(summed(rig, Tensor(rig, dtype, values), random_cuts(n, engine), bound, n), expected);
        }
      }
    }
  });
}

TEST_CASE("sum_of_squares is within 1e-12 of the exact sum") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t n : {1, 3, 5, 7, 1000, 70001}) {
        for (const double scale : {1.0, 1e-3, 1e4}) {
          auto values = wild_values(dtype, n, 13);
          for (double& v : values) v = rounded(dtype, v * scale);
          long double exact = 0;
          for (const double v : values) exact += static_cast<long double>(v) * v;
          const double bound = largest(values);
          // A loose count and a loose bound cost little.
          for (const std::int64_t total : {n, std::int64_t{1} << 30}) {
            for (const double slack : {1.0, 2.9}) {
              const auto s = summed(rig, Tensor(rig, dtype, values), {{0, n}}, bound * slack, total);
              CHECK(std::abs(static_cast<double>((s[0] + s[1] + s[2] - exact) / exact)) < 1e-12);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("grad_stats_and_sum_of_squares is both, bit for bit, whatever the guess has of the bound's grids") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t n : {0, 1, 3, 7, 100, 4097, 70001}) {
        const auto values = wild_values(dtype, n, 14);
        const double bound = std::max(largest(values), 1e-4);
        const Tensor x(rig, dtype, values);
        const Tensor expected_stats(rig, DType::fp64, std::vector<double>{0, 2});
        rig.ops.grad_stats(rig.stream, expected_stats, x);
        const auto expected = summed(rig, x, {{0, n}}, bound, n + 5);
        const double top = std::ldexp(1, SliceGrids::exponent_of(bound));
        for (const double guess : {bound, top / 16, top * 0.99, top}) {
          CAPTURE(guess / bound);
          const Tensor guessed(rig, DType::fp64, std::vector<double>{guess});
          const Tensor stats(rig, DType::fp64, std::vector<double>{0, 2});
          const Tensor out(rig, DType::fp64, std::vector<double>{0, 0, 0});
          rig.ops.grad_stats_and_sum_of_squares(rig.stream, stats, out, x,
                                                static_cast<const double*>(guessed.view().data), n + 5);
          check_equal(stats.read(), expected_stats.read());
          const bool same_grids = SliceGrids::exponent_of(guess) == SliceGrids::exponent_of(bound);
          CHECK(same_grids == (guess < top));
          if (same_grids) check_equal(out.read(), expected);
        }
      }
      // Whatever is there is counted; the sum is then nobody's.
      const Tensor bad(rig, dtype, std::vector<double>{1, nan, -infinity, 3});
      const Tensor stats(rig, DType::fp64, std::vector<double>{0, 0});
      const Tensor out(rig, DType::fp64, std::vector<double>{0, 0, 0});
      const Tensor guess(rig, DType::fp64, std::vector<double>{0.01});
      rig.ops.grad_stats_and_sum_of_squares(rig.stream, stats, out, bad,
                                            static_cast<const double*>(guess.view().data), 4);
      check_equal(stats.read(), std::vector<double>{3, 2});
    }
  });
}

TEST_CASE("sum_of_squares works at both ends of the range of fp32") {
  on_each_backend([](Rig& rig) {
    for (const double magnitude : {0x1.fffffep127, 0x1p-149}) {
      const Tensor x(rig, DType::fp32, std::vector<double>{magnitude, -magnitude, magnitude});
      const auto s = summed(rig, x, {{0, 2}, {2, 3}}, magnitude, 3);
      CHECK(s[0] + s[1] + s[2] == 3 * (magnitude * magnitude));
    }
  });
}

TEST_CASE("sum_of_squares of nothing, and under a zero bound, is zero") {
  on_each_backend([](Rig& rig) {
    const Tensor zeros(rig, DType::fp32, std::vector<double>(100, 0));
    check_equal(summed(rig, zeros, {{0, 100}}, 0, 100), std::vector<double>{0, 0, 0});
    check_equal(summed(rig, zeros, {{5, 5}}, 1, 100), std::vector<double>{0, 0, 0});
    check_equal(summed(rig, zeros, {{0, 100}}, 1, 100), std::vector<double>{0, 0, 0});
    CHECK_THROWS_AS(summed(rig, zeros, {{0, 100}}, 1, 99), std::invalid_argument);
    CHECK_THROWS_AS(summed(rig, Tensor(rig, DType::fp64, 3), {{0, 3}}, 1, 3), std::invalid_argument);
  });
}

}  // namespace zero1::test
