// The suite's own references: analytic gradients against central differences, all in fp64.
#include "device_reference.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>

namespace zero1::test::reference {
namespace {

Values random(std::int64_t numel, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, 1);
  Values values(at(numel));
  for (double& v : values) v = normal(engine);
  return values;
}

double dot(const Values& a, const Values& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

void check_gradient(Values x, const Values& gradient, const std::function<double(const Values&)>& f) {
  REQUIRE(x.size() == gradient.size());
  constexpr double h = 1e-5;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + h;
    const double up = f(x);
    x[i] = kept - h;
    const double down = f(x);
    x[i] = kept;
    CHECK((up - down) / (2 * h) == doctest::Approx(gradient[i]).epsilon(1e-6).scale(1));
  }
}

TEST_CASE("reference gradients are those of the reference functions") {
  SUBCASE("gelu") {
    for (double x = -5; x < 5; x += 0.37)
      check_gradient({x}, {gelu_derivative(x)}, [](const Values& v) { return gelu(v[0]); });
  }
  SUBCASE("layernorm") {
    const std::int64_t rows = 3, channels = 5;
    const Values x = random(15, 1), w = random(5, 2), b = random(5, 3), d = random(15, 4);
    const auto g = layernorm_backward(d, x, w, rows, channels, 1e-5);
    check_gradient(x, g.d_x,
                   [&](const Values& v) { return dot(d, layernorm(v, w, b, rows, channels, 1e-5).out); });
    check_gradient(w, g.d_weight,
                   [&](const Values& v) { return dot(d, layernorm(x, v, b, rows, channels, 1e-5).out); });
    check_gradient(b, g.d_bias,
                   [&](const Values& v) { return dot(d, layernorm(x, w, v, rows, channels, 1e-5).out); });
  }
  SUBCASE("attention") {
    const AttentionShape s{2, 5, 2, 3};
    const Values qkv = random(2 * 5 * 18, 5), d = random(2 * 5 * 6, 6);
    const auto g = attention_backward(d, attention(qkv, s).probs, qkv, s);
    check_gradient(qkv, g, [&](const Values& v) { return dot(d, attention(v, s).out); });
  }
  SUBCASE("cross entropy") {
    const std::vector<std::int32_t> targets{4, 0, 2};
    const Values logits = random(3 * 7, 7);
    const auto g = cross_entropy(logits, targets, 7, 1);
    check_gradient(logits, g.d_logits, [&](const Values& v) { return cross_entropy(v, targets, 7, 1).loss; });
  }
}

}  // namespace
}  // namespace zero1::test::reference
