// Matrix products: every dtype, transposition, scaling and accumulation, on uneven shapes.
#pragma once

#include <stdexcept>

#include "device_harness.h"
#include "device_reference.h"

namespace zero1::test {

struct MatmulCase {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  float alpha, beta;
};

/// Tolerance: fp32 sums of k products in any order err by at most k units of Σ|a||b|; then the result is
/// rounded to C's dtype, twice where beta * C is added by a separate pass.
inline void check_matmul(Rig& rig, DType in, DType out, const MatmulCase& x) {
  INFO("m ", x.m, " n ", x.n, " k ", x.k, " ta ", x.transpose_a, " tb ", x.transpose_b, " alpha ", x.alpha,
       " beta ", x.beta, " in ", name(in), " out ", name(out));
  const auto a = random_values(in, x.m * x.k, 21), b = random_values(in, x.k * x.n, 22);
  const auto c = random_values(out, x.m * x.n, 23);
  const Tensor ta(rig, in, a), tb(rig, in, b);
  const Tensor tc = x.beta == 0 ? Tensor(rig, out, x.m * x.n) : Tensor(rig, out, c);
  MatmulArgs args;
  args.a = ta;
  args.b = tb;
  args.c = tc;
  args.m = x.m;
  args.n = x.n;
  args.k = x.k;
  args.transpose_a = x.transpose_a;
  args.transpose_b = x.transpose_b;
  args.alpha = x.alpha;
  args.beta = x.beta;
  rig.ops.matmul(rig.stream, args);
  const auto product = reference::matmul(a, b, x.m, x.n, x.k, x.transpose_a, x.transpose_b);
  const auto actual = tc.read();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double old = x.beta == 0 ? 0 : x.beta * c[i];
    const double expected = x.alpha * product.value[i] + old;
    const double sums =
        static_cast<double>(x.k + 4) * 0x1p-24 * (std::abs(x.alpha) * product.magnitude[i] + std::abs(old));
    const double tolerance = sums + 2 * unit(out) * (std::abs(expected) + std::abs(old));
    if (!(std::abs(actual[i] - expected) <= tolerance)) {
      FAIL_CHECK("element ", i, " is ", actual[i], ", expected ", expected, " within ", tolerance);
      break;
    }
  }
  check_equal(ta.read(), a);
  check_equal(tb.read(), b);
}

TEST_CASE("matmul of every dtype, transposition and scaling") {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {1, 5, 3},    {7, 1, 5},     {3, 7, 1},     {5, 3, 7},
                                    {16, 17, 31}, {64, 48, 33}, {33, 130, 65}, {129, 66, 100}};
  on_each_backend([&](Rig& rig) {
    for (const DType in : low_dtypes) {
      for (const DType out : {DType::fp32, in}) {
        for (const auto& [m, n, k] : shapes) {
          for (const bool ta : {false, true}) {
            for (const bool tb : {false, true}) {
              check_matmul(rig, in, out, {m, n, k, ta, tb, 1, 0});
              check_matmul(rig, in, out, {m, n, k, ta, tb, 1, 1});
            }
          }
          check_matmul(rig, in, out, {m, n, k, false, true, 0.5F, 0});
          check_matmul(rig, in, out, {m, n, k, true, false, -1.5F, 0.25F});
        }
      }
    }
  });
}

TEST_CASE("matmul of the shapes of a layer: forward, input gradient, weight gradient") {
  on_each_backend([](Rig& rig) {
    for (const DType in : low_dtypes) {
      check_matmul(rig, in, in, {65, 96, 48, false, true, 1, 0});           // Y = X · Wᵀ
      check_matmul(rig, in, in, {65, 48, 96, false, false, 1, 0});          // dX = dY · W
      check_matmul(rig, in, DType::fp32, {96, 48, 65, true, false, 1, 1});  // dW += dYᵀ · X
    }
  });
}

TEST_CASE("matmul gives the same bits every time") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      constexpr std::int64_t n = 160;
      const Tensor a(rig, dtype, random_values(dtype, n * n, 1)),
          b(rig, dtype, random_values(dtype, n * n, 2));
      const Tensor c(rig, DType::fp32, n * n), d(rig, DType::fp32, n * n);
      MatmulArgs args;
      args.a = a;
      args.b = b;
      args.m = args.n = args.k = n;
      args.transpose_a = true;
      args.c = c;
      rig.ops.matmul(rig.stream, args);
      args.c = d;
      for (int i = 0; i < 5; ++i) {
        rig.ops.matmul(rig.stream, args);
        CHECK(c.bytes() == d.bytes());
      }
    }
  });
}

TEST_CASE("matmul with an empty dimension") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      MatmulArgs args;
      args.a = args.b = TensorView{nullptr, dtype, 0};
      const Tensor c(rig, dtype, std::vector<double>{1, 2, 3, 4, 5, 6});
      args.c = c;
      args.m = 2;
      args.n = 3;
      args.beta = 2;
      rig.ops.matmul(rig.stream, args);  // k = 0
      check_equal(c.read(), std::vector<double>{2, 4, 6, 8, 10, 12});
      args.beta = 0;
      rig.ops.matmul(rig.stream, args);
      check_equal(c.read(), std::vector<double>(6, 0));
      args.m = 0;
      args.k = 5;
      args.b = Tensor(rig, dtype, 15);
      args.c = TensorView{nullptr, dtype, 0};
      rig.ops.matmul(rig.stream, args);
      rig.stream.synchronize();
    }
  });
}

TEST_CASE("matmul refuses dtypes and sizes that do not fit") {
  on_each_backend([](Rig& rig) {
    const Tensor f(rig, DType::fp32, 4), b(rig, DType::bf16, 4), h(rig, DType::fp16, 4),
        d(rig, DType::fp64, 4);
    const auto refuses = [&](TensorView a_view, TensorView b_view, TensorView c_view, std::int64_t k) {
      MatmulArgs args;
      args.a = a_view;
      args.b = b_view;
      args.c = c_view;
      args.m = args.n = 2;
      args.k = k;
      CHECK_THROWS_AS(rig.ops.matmul(rig.stream, args), std::invalid_argument);
    };
    refuses(f, b, f, 2);
    refuses(b, b, h, 2);
    refuses(f, f, b, 2);
    refuses(d, d, d, 2);
    refuses(f, f, f, 3);
    refuses(f, f, f, -2);
  });
}

}  // namespace zero1::test
