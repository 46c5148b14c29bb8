// The CPU's vector functions against fp64: the errors that their comments state.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/device/cpu/vector_math.h"

namespace zero1::cpu {
namespace {

std::vector<float> exps(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const auto numel = static_cast<std::int64_t>(x.size());
  for_lanes(0, numel,
            [&](std::int64_t i, auto part) { store(y.data() + i, exp(load(x.data() + i, part)), part); });
  return y;
}

TEST_CASE("exp is within 2 ulp from -87.3 to 88.7") {
  std::vector<float> x;
  for (float v = -87.3F; v < 88.7F; v += 0.00037F) x.push_back(v);
  for (float v = 1e-30F; v < 1; v *= 1.7F) x.insert(x.end(), {v, -v});
  const auto y = exps(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / ulp);
  }
  MESSAGE("largest error of exp: ", worst, " ulp");
  CHECK(worst <= 2);
}

TEST_CASE("exp at the ends: gradual underflow, zero, infinity, NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto y =
      exps({-inf, -1e30F, -105, 89, 1e30F, inf, std::numeric_limits<float>::quiet_NaN(), 0, -90, -0.0F});
  CHECK(y[0] == 0);
  CHECK(y[1] == 0);
  CHECK(y[2] == 0);
  CHECK(y[3] == inf);
  CHECK(y[4] == inf);
  CHECK(y[5] == inf);
  CHECK(std::isnan(y[6]));
  CHECK(y[7] == 1);
  CHECK(std::abs(y[8] - std::exp(-90.0)) <= 2 * 0x1p-149);
  CHECK(y[9] == 1);
}

TEST_CASE("an element's result does not depend on its place, nor on its neighbours") {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0, 20);
  std::vector<float> x(100);
  for (float& v : x) v = normal(engine);
  const auto whole = exps(x);
  for (std::size_t start = 0; start < x.size(); ++start) {
    for (const std::size_t count : {1, 3, 5, 7, 16, 17, 31}) {
      if (start + count > x.size()) continue;
      const auto first = static_cast<std::ptrdiff_t>(start),
                 last = static_cast<std::ptrdiff_t>(start + count);
      const auto piece = exps({x.begin() + first, x.begin() + last});
      CHECK(std::equal(piece.begin(), piece.end(), whole.begin() + first));
    }
  }
}

TEST_CASE("gelu's gate is a logistic function and its slope stays finite") {
  std::vector<float> x;
  for (float v = -40; v < 40; v += 0.0101F) x.push_back(v);
  x.insert(x.end(), {1e30F, -1e30F, std::numeric_limits<float>::max()});
  const auto numel = static_cast<std::int64_t>(x.size());
  std::vector<float> gate(x.size()), slope(x.size());
  for_lanes(0, numel, [&](std::int64_t i, auto part) {
    const Gelu gelu(load(x.data() + i, part));
    store(gate.data() + i, gelu.gate, part);
    store(slope.data() + i, gelu.slope(), part);
  });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double u = 0.7978845608028654 * (v + 0.044715 * v * v * v);
    CHECK(std::abs(gate[i] - 1 / (1 + std::exp(-2 * u))) <= 1e-6);
    CHECK(std::abs(slope[i]) < 1.2F);
    if (v < -17) CHECK(slope[i] == doctest::Approx(0).epsilon(1e-6));
    if (v > 17) CHECK(slope[i] == doctest::Approx(1).epsilon(1e-6));
  }
}

}  // namespace
}  // namespace zero1::cpu
