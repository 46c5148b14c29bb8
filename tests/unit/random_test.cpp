#include "core/base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace zero1;

TEST_CASE("streams are reproducible, and differ by seed and by number") {
  RandomStream a(7, 3), again(7, 3), other_seed(8, 3), other_stream(7, 4);
  for (int i = 0; i < 100; ++i) {
    const auto value = a.next();
    CHECK(value == again.next());
    CHECK(value != other_seed.next());
    CHECK(value != other_stream.next());
  }
}

TEST_CASE("the numbers are these on every machine") {
  RandomStream bits(1, 2);
  CHECK(bits.next() == 0x8C647D4BC9D6B599ULL);
  CHECK(bits.next() == 0xFE65F7266B2D228BULL);
  NormalStream normal(RandomStream(1, 2));
  CHECK(normal.next() == 0x1.1a8b515bdf65ap-6);
  CHECK(normal.next() == 0x1.683a5d2288184p-3);
}

TEST_CASE("below covers its range evenly and never leaves it") {
  RandomStream random(5);
  std::vector<int> seen(7);
  for (int i = 0; i < 70000; ++i) ++seen.at(static_cast<std::size_t>(random.below(7)));
  for (const int count : seen) CHECK(std::abs(count - 10000) < 500);
  for (int i = 0; i < 100; ++i) CHECK(random.below(1) == 0);
}

TEST_CASE("portable_log is the logarithm") {
  for (const double x :
       {1e-300, 3e-17, 0.1, 0.5, 0.7071067811865475, 0.70710678118654757, 0.9999999, 1.0, 1.5, 2.0, 1e9}) {
    CAPTURE(x);
    CHECK(std::abs(portable_log(x) - std::log(x)) <= 4e-16 * std::abs(std::log(x)));
  }
}

TEST_CASE("normal numbers have the moments and the quantiles of the normal distribution") {
  constexpr int count = 200000;
  NormalStream normal(RandomStream(11));
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  int within_one = 0, beyond_three = 0;
  for (int i = 0; i < count; ++i) {
    const double x = normal.next();
    sum += x;
    squares += x * x;
    cubes += x * x * x;
    fourths += x * x * x * x;
    within_one += std::abs(x) < 1;
    beyond_three += std::abs(x) > 3;
  }
  CHECK(std::abs(sum / count) < 0.01);
  CHECK(std::abs(squares / count - 1) < 0.015);
  CHECK(std::abs(cubes / count) < 0.04);
  CHECK(std::abs(fourths / count - 3) < 0.1);
  CHECK(std::abs(within_one / double{count} - 0.6827) < 0.005);
  CHECK(std::abs(beyond_three / double{count} - 0.0027) < 0.0006);
}
