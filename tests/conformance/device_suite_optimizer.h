// Gradient statistics and AdamW.
#pragma once

#include <stdexcept>

#include "device_harness.h"
#include "device_reference.h"

namespace zero1::test {

TEST_CASE("grad_stats finds the largest finite magnitude and counts the rest") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t n : odd_sizes) {
        auto values = random_values(dtype, n, 5);
        double largest = 0, bad = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (i % 6 == 4) values[i] = i % 12 == 4 ? nan : -infinity;
          if (std::isfinite(values[i]))
            largest = std::max(largest, std::abs(values[i]));
          else
            ++bad;
        }
        const Tensor x(rig, dtype, values);
        const Tensor out(rig, DType::fp64, std::vector<double>{0, 3});
        rig.ops.grad_stats(rig.stream, out, x);
        check_equal(out.read(), std::vector<double>{largest, 3 + bad});
        rig.ops.grad_stats(rig.stream, out, x);
        check_equal(out.read(), std::vector<double>{largest, 3 + 2 * bad});
      }
      const Tensor out(rig, DType::fp64, std::vector<double>{1e30, 0});
      rig.ops.grad_stats(rig.stream, out, Tensor(rig, dtype, std::vector<double>{1, -2}));
      check_equal(out.read(), std::vector<double>{1e30, 0});
      rig.ops.grad_stats(rig.stream, out, TensorView{nullptr, dtype, 0});
      check_equal(out.read(), std::vector<double>{1e30, 0});
    }
  });
}

TEST_CASE("grad_stats_and_scale is both, bit for bit") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t n : odd_sizes) {
        auto values = random_values(dtype, n, 6);
        for (std::size_t i = 3; i < values.size(); i += 5) values[i] = i % 2 == 0 ? nan : infinity;
        const Tensor together(rig, dtype, values), apart(rig, dtype, values);
        const Tensor out(rig, DType::fp64, std::vector<double>{0, 1});
        const Tensor expected(rig, DType::fp64, std::vector<double>{0, 1});
        rig.ops.grad_stats_and_scale(rig.stream, out, together, 1.0F / 3);
        rig.ops.grad_stats(rig.stream, expected, apart);
        rig.ops.scale(rig.stream, apart, 1.0F / 3);
        check_equal(out.read(), expected.read());
        check_equal(together.read(), apart.read());
      }
    }
  });
}

/// One shard in host memory, updated by the fp64 reference beside the device.
struct AdamShard {
  std::vector<double> param, m, v;
};

/// Tolerances: a step makes some ten fp32 roundings, of which those of the moments persist.
inline void check_adamw(Rig& rig, DType grad_dtype, DType model_dtype, bool scaled, std::int64_t n) {
  AdamShard host{random_values(DType::fp32, n, 6), random_values(DType::fp32, n, 7, 0.1),
                 random_values(DType::fp32, n, 8, 0.1)};
  for (double& v : host.v) v = std::abs(v);
  const Tensor param(rig, DType::fp32, host.param), m(rig, DType::fp32, host.m), v(rig, DType::fp32, host.v);
  const Tensor model(rig, model_dtype, n);
  const Tensor clip(rig, DType::fp32, std::vector<double>{0.25});
  AdamWArgs args;
  args.main_param = param;
  args.exp_avg = m;
  args.exp_avg_sq = v;
  args.model_param = model;
  args.grad_scale = scaled ? static_cast<const float*>(clip.view().data) : nullptr;
  args.lr = 0.01;
  args.weight_decay = 0.1;
  for (args.step = 1; args.step <= 3; ++args.step) {
    const auto grads = random_values(grad_dtype, n, static_cast<unsigned>(100 + args.step));
    const Tensor grad(rig, grad_dtype, grads);
    args.grad = grad;
    rig.ops.adamw(rig.stream, args);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      host.param[i] =
          reference::adamw(host.param[i], host.m[i], host.v[i], grads[i] * (scaled ? 0.25 : 1), args);
    }
    check_close(m.read(), host.m, 1e-7, 1e-6);
    check_close(v.read(), host.v, 1e-7, 1e-6);
    check_close(param.read(), host.param, 2e-7, 1e-6);
    check_equal(model.read(), rounded(model_dtype, param.read()));
    check_equal(grad.read(), grads);
  }
}

TEST_CASE("adamw follows torch.optim.AdamW and writes the model's copy in the same pass") {
  on_each_backend([](Rig& rig) {
    for (const DType grad : low_dtypes) {
      for (const DType model : low_dtypes) {
        for (const std::int64_t n : odd_sizes) {
          check_adamw(rig, grad, model, false, n);
          check_adamw(rig, grad, model, true, n);
        }
      }
    }
  });
}

TEST_CASE("adamw gives the same bits for a shard cut into pieces, and without a model copy") {
  on_each_backend([](Rig& rig) {
    constexpr std::int64_t n = 70001;
    const auto p = random_values(DType::fp32, n, 1), g = random_values(DType::fp32, n, 2);
    const std::vector<double> zeros(n, 0);
    const Tensor param(rig, DType::fp32, p), m(rig, DType::fp32, zeros), v(rig, DType::fp32, zeros);
    const Tensor param2(rig, DType::fp32, p), m2(rig, DType::fp32, zeros), v2(rig, DType::fp32, zeros);
    const Tensor grad(rig, DType::fp32, g);
    const auto update = [&](const Tensor& tp, const Tensor& tm, const Tensor& tv, Range range) {
      AdamWArgs args;
      args.main_param = tp.view().slice(range);
      args.exp_avg = tm.view().slice(range);
      args.exp_avg_sq = tv.view().slice(range);
      args.grad = ConstTensorView(grad.view()).slice(range);
      args.lr = 1e-3;
      args.weight_decay = 0.01F;
      rig.ops.adamw(rig.stream, args);
    };
    update(param, m, v, {0, n});
    for (const Range range : {Range{0, 1}, {1, 4}, {4, 4}, {4, 40000}, {40000, 40007}, {40007, n}}) {
      update(param2, m2, v2, range);
    }
    CHECK(param.bytes() == param2.bytes());
    CHECK(m.bytes() == m2.bytes());
    CHECK(v.bytes() == v2.bytes());
  });
}

TEST_CASE("adamw refuses states that are not fp32, sizes that differ and step 0") {
  on_each_backend([](Rig& rig) {
    const std::vector<double> three{1, 2, 3};
    const Tensor p(rig, DType::fp32, three), low(rig, DType::bf16, three), two(rig, DType::fp32, {1, 2});
    AdamWArgs good;
    good.main_param = good.exp_avg = good.exp_avg_sq = p;
    good.grad = p;
    const auto refuses = [&](auto spoil) {
      AdamWArgs args = good;
      spoil(args);
      CHECK_THROWS_AS(rig.ops.adamw(rig.stream, args), std::invalid_argument);
    };
    refuses([&](AdamWArgs& a) { a.main_param = low; });
    refuses([&](AdamWArgs& a) { a.exp_avg = low; });
    refuses([&](AdamWArgs& a) { a.exp_avg_sq = two; });
    refuses([&](AdamWArgs& a) { a.grad = two; });
    refuses([&](AdamWArgs& a) { a.model_param = two; });
    refuses([&](AdamWArgs& a) { a.step = 0; });
    check_equal(p.read(), three);
  });
}

}  // namespace zero1::test
