// Embedding, layer norm, biases, activations.
#pragma once

#include <stdexcept>

#include "core/base/error.h"
#include "device_harness.h"
#include "device_reference.h"

namespace zero1::test {

struct RowShape {
  std::int64_t rows, channels;
  std::int64_t numel() const { return rows * channels; }
};

inline const RowShape row_shapes[] = {{1, 1}, {1, 5}, {3, 7}, {5, 3}, {7, 16}, {70, 17}, {3, 100}, {130, 48}};

/// Gradients are kept in fp32 or in the activations' dtype.
template <class Test>
void for_grad_dtypes(DType low, Test&& test) {
  test(DType::fp32);
  if (low != DType::fp32) test(low);
}

template <class Fn>
std::vector<double> mapped(std::vector<double> values, Fn&& fn) {
  for (double& v : values) v = fn(v);
  return values;
}

TEST_CASE("embedding adds the token's and the position's row") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const std::int64_t channels : {1, 3, 7, 16, 33}) {
        const std::int64_t seq_len = 5, n_tokens = 15, vocab = 7;
        const auto wte = random_values(dtype, vocab * channels, 1),
                   wpe = random_values(dtype, 6 * channels, 2);
        const auto tokens = random_tokens(n_tokens, vocab, 3);
        const Tensor out(rig, dtype, n_tokens * channels), te(rig, dtype, wte), pe(rig, dtype, wpe);
        const Int32s device_tokens(rig, tokens);
        rig.ops.embedding_forward(rig.stream, out, device_tokens.data(), te, pe, n_tokens, seq_len, channels);
        std::vector<double> expected;
        for (std::int64_t t = 0; t < n_tokens; ++t) {
          for (std::int64_t c = 0; c < channels; ++c) {
            const double sum =
                wte[static_cast<std::size_t>(tokens[static_cast<std::size_t>(t)] * channels + c)] +
                wpe[static_cast<std::size_t>(t % seq_len * channels + c)];
            expected.push_back(rounded(dtype, static_cast<float>(sum)));
          }
        }
        check_equal(out.read(), expected);
      }
    }
  });
}

/// Exact: the order of additions is part of the contract.
inline void check_embedding_backward(Rig& rig, DType low, DType grad, std::int64_t channels) {
  const std::int64_t seq_len = 5, n_tokens = 20, vocab = 4;
  const auto d_out = random_values(low, n_tokens * channels, 4);
  const auto tokens = random_tokens(n_tokens, vocab, 5);
  auto wte = random_values(grad, vocab * channels, 6), wpe = random_values(grad, seq_len * channels, 7);
  const Tensor d(rig, low, d_out), te(rig, grad, wte), pe(rig, grad, wpe), te_alone(rig, grad, wte);
  const Int32s device_tokens(rig, tokens);
  rig.ops.embedding_backward(rig.stream, te, pe, d, device_tokens.data(), n_tokens, seq_len, channels);
  rig.ops.embedding_backward(rig.stream, te_alone, TensorView{}, d, device_tokens.data(), n_tokens, seq_len,
                             channels);
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double x = d_out[static_cast<std::size_t>(t * channels + c)];
      double& e = wte[static_cast<std::size_t>(tokens[static_cast<std::size_t>(t)] * channels + c)];
      double& p = wpe[static_cast<std::size_t>(t % seq_len * channels + c)];
      e = rounded(grad, static_cast<float>(e) + static_cast<float>(x));
      p = rounded(grad, static_cast<float>(p) + static_cast<float>(x));
    }
  }
  check_equal(te.read(), wte);
  check_equal(te_alone.read(), wte);
  check_equal(pe.read(), wpe);
}

TEST_CASE("embedding_backward adds in the order of tokens") {
  on_each_backend([](Rig& rig) {
    for (const DType low : low_dtypes) {
      for_grad_dtypes(low, [&](DType grad) {
        for (const std::int64_t channels : {1, 3, 16, 33, 300})
          check_embedding_backward(rig, low, grad, channels);
      });
    }
  });
}

TEST_CASE("a token outside of the vocabulary is an error that names it") {
  on_each_backend([](Rig& rig) {
    const Tensor out(rig, DType::fp32, 6), wte(rig, DType::fp32, 6), wpe(rig, DType::fp32, 6);
    const Int32s tokens(rig, {1, 3, 0});
    std::string message;
    try {
      rig.ops.embedding_forward(rig.stream, out, tokens.data(), wte, wpe, 3, 3, 2);
      rig.stream.synchronize();
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message.find("token 3") != std::string::npos);
  });
}

inline constexpr float layernorm_eps = 1e-5F;

/// Tolerances: fp32 sums over a row, then one rounding to the output's dtype.
inline void check_layernorm(Rig& rig, DType low, DType grad, const RowShape& s) {
  auto x = random_values(low, s.numel(), 8, 2);
  for (double& v : x) v = rounded(low, v + 3);
  const auto weight = random_values(low, s.channels, 9), bias = random_values(low, s.channels, 10);
  const Tensor tx(rig, low, x), tw(rig, low, weight), tb(rig, low, bias), out(rig, low, s.numel());
  const Tensor mean(rig, DType::fp32, s.rows), rstd(rig, DType::fp32, s.rows);
  rig.ops.layernorm_forward(rig.stream, out, mean, rstd, tx, tw, tb, s.rows, s.channels, layernorm_eps);
  const auto f = reference::layernorm(x, weight, bias, s.rows, s.channels, layernorm_eps);
  check_close(mean.read(), f.mean, 2e-6, 1e-6);
  check_close(rstd.read(), f.rstd, 0, 2e-5);
  check_close(out.read(), f.out, 2e-5, unit(low) + 2e-5);

  const auto d_out = random_values(low, s.numel(), 11), residual = random_values(low, s.numel(), 12);
  const auto start_w = random_values(grad, s.channels, 13), start_b = random_values(grad, s.channels, 14);
  auto g = reference::layernorm_backward(d_out, x, weight, s.rows, s.channels, layernorm_eps);
  double rstd_max = 1;  // a row of nearly equal values magnifies errors by its rstd
  for (const double r : f.rstd) rstd_max = std::max(rstd_max, r);
  for (std::size_t i = 0; i < start_w.size(); ++i) {
    g.d_weight[i] += start_w[i];
    g.d_bias[i] += start_b[i];
  }
  const auto backward = [&](const Tensor& d_x, ConstTensorView d_residual) {
    const Tensor td(rig, low, d_out), dw(rig, grad, start_w), db(rig, grad, start_b);
    rig.ops.layernorm_backward(rig.stream, d_x, dw, db, td, d_residual, tx, tw, mean, rstd, s.rows,
                               s.channels);
    const double sums = 4e-6 * static_cast<double>(s.rows) * rstd_max;
    check_close(dw.read(), g.d_weight, sums, unit(grad) + 1e-5);
    check_close(db.read(), g.d_bias, sums, unit(grad) + 1e-6);
  };
  const Tensor plain(rig, low, s.numel()), in_place(rig, low, residual);
  backward(plain, ConstTensorView{});
  check_close(plain.read(), g.d_x, 1e-5 * rstd_max, unit(low) + 1e-5);
  backward(in_place, in_place);
  for (std::size_t i = 0; i < residual.size(); ++i) g.d_x[i] += residual[i];
  check_close(in_place.read(), g.d_x, 1e-5 * rstd_max, unit(low) + 1e-5);
}

TEST_CASE("layernorm forward and backward") {
  on_each_backend([](Rig& rig) {
    for (const DType low : low_dtypes) {
      for_grad_dtypes(low, [&](DType grad) {
        for (const RowShape& s : row_shapes) {
          INFO(name(low), " ", name(grad), " rows ", s.rows, " channels ", s.channels);
          check_layernorm(rig, low, grad, s);
        }
      });
    }
  });
}

TEST_CASE("add_bias and add_bias_residual round once") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const RowShape& s : row_shapes) {
        const auto x = random_values(dtype, s.numel(), 15), r = random_values(dtype, s.numel(), 16);
        const auto bias = random_values(dtype, s.channels, 17);
        const Tensor tx(rig, dtype, x), in_place(rig, dtype, x), tb(rig, dtype, bias), with(rig, dtype, r),
            without(rig, dtype, r);
        rig.ops.add_bias(rig.stream, in_place, tb, s.rows, s.channels);
        rig.ops.add_bias_residual(rig.stream, with, tx, tb, s.rows, s.channels);
        rig.ops.add_bias_residual(rig.stream, without, tx, ConstTensorView{}, s.rows, s.channels);
        std::vector<double> biased, summed_with, summed_without;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double b = bias[i % bias.size()];
          biased.push_back(x[i] + b);
          summed_with.push_back(r[i] + x[i] + b);
          summed_without.push_back(r[i] + x[i]);
        }
        const double fp32_error = 1e-6;
        check_close(in_place.read(), biased, fp32_error, unit(dtype));
        check_close(with.read(), summed_with, fp32_error, unit(dtype));
        check_close(without.read(), summed_without, fp32_error, unit(dtype));
      }
    }
  });
}

TEST_CASE("bias_backward adds the sum over rows") {
  on_each_backend([](Rig& rig) {
    for (const DType low : low_dtypes) {
      for_grad_dtypes(low, [&](DType grad) {
        for (const RowShape& s : row_shapes) {
          const auto d_out = random_values(low, s.numel(), 18);
          auto expected = random_values(grad, s.channels, 19);
          const Tensor d(rig, low, d_out), d_bias(rig, grad, expected);
          rig.ops.bias_backward(rig.stream, d_bias, d, s.rows, s.channels);
          for (std::size_t i = 0; i < d_out.size(); ++i) expected[i % expected.size()] += d_out[i];
          check_close(d_bias.read(), expected, 1e-6 * static_cast<double>(s.rows), unit(grad));
        }
      });
    }
  });
}

/// Values where a sloppy tanh shows: far out, around zero, tiny, and everything in between.
inline std::vector<double> gelu_inputs(DType dtype, std::int64_t numel) {
  auto x = random_values(dtype, numel, 20, 3);
  const double special[] = {0, -0.0, 1e-6, -1e-6, 20, -20, 1e4, -1e4, 60000, -60000, 8.5, -8.5};
  for (std::size_t i = 0; i < x.size() && i < std::size(special); ++i)
    x[x.size() - 1 - i] = rounded(dtype, special[i]);
  return x;
}

TEST_CASE("gelu forward saves what backward needs; both are accurate everywhere") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const RowShape& s : row_shapes) {
        const auto x = gelu_inputs(dtype, s.numel()), bias = random_values(dtype, s.channels, 21, 0.1);
        const auto d_out = random_values(dtype, s.numel(), 22);
        const Tensor tx(rig, dtype, x), in_place(rig, dtype, x), tb(rig, dtype, bias);
        const Tensor pre(rig, dtype, s.numel()), out(rig, dtype, s.numel()), out2(rig, dtype, s.numel());
        rig.ops.bias_gelu_forward(rig.stream, out, pre, tx, tb, s.rows, s.channels);
        rig.ops.bias_gelu_forward(rig.stream, out2, in_place, in_place, tb, s.rows, s.channels);
        CHECK(out.bytes() == out2.bytes());
        CHECK(pre.bytes() == in_place.bytes());
        std::vector<double> biased;
        for (std::size_t i = 0; i < x.size(); ++i) {
          biased.push_back(
              rounded(dtype, static_cast<float>(x[i]) + static_cast<float>(bias[i % bias.size()])));
        }
        check_equal(pre.read(), biased);
        // fp16 ends at 6e-8; fp32 exp is within 2 ulp, magnified by the exponent's own rounding far out.
        const double tiny = dtype == DType::fp16 ? 0x1p-25 : 1e-9;
        check_close(out.read(), mapped(biased, reference::gelu), tiny, unit(dtype) + 2e-6);

        const Tensor d(rig, dtype, d_out), d_pre(rig, dtype, s.numel()), d_in_place(rig, dtype, d_out);
        rig.ops.gelu_backward(rig.stream, d_pre, d, pre);
        rig.ops.gelu_backward(rig.stream, d_in_place, d_in_place, pre);
        auto expected = mapped(biased, reference::gelu_derivative);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] *= d_out[i];
        check_close(d_pre.read(), expected, 2e-6, unit(dtype) + 1e-6);
        CHECK(d_pre.bytes() == d_in_place.bytes());
      }
    }
  });
}

TEST_CASE("relu forward and backward") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      for (const RowShape& s : row_shapes) {
        const auto x = random_values(dtype, s.numel(), 23), bias = random_values(dtype, s.channels, 24);
        const auto d_out = random_values(dtype, s.numel(), 25);
        const Tensor out(rig, dtype, x), tb(rig, dtype, bias), d(rig, dtype, d_out),
            d_x(rig, dtype, s.numel());
        rig.ops.bias_relu_forward(rig.stream, out, tb, s.rows, s.channels);
        rig.ops.relu_backward(rig.stream, d_x, d, out);
        std::vector<double> expected, expected_d;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const float pre = static_cast<float>(x[i]) + static_cast<float>(bias[i % bias.size()]);
          expected.push_back(rounded(dtype, std::max(pre, 0.0F)));
          expected_d.push_back(expected.back() > 0 ? d_out[i] : 0);
        }
        check_equal(out.read(), expected);
        check_equal(d_x.read(), expected_d);
        rig.ops.relu_backward(rig.stream, d, d, out);
        check_equal(d.read(), expected_d);
      }
    }
  });
}

TEST_CASE("activations keep a NaN, so that it is found") {
  on_each_backend([](Rig& rig) {
    for (const DType dtype : low_dtypes) {
      const Tensor x(rig, dtype, {1, nan, -1}), relu(rig, dtype, {1, nan, -1}), zero(rig, dtype, {0, 0, 0});
      const Tensor pre(rig, dtype, 3), out(rig, dtype, 3), one(rig, dtype, {1, 1, 1}), d(rig, dtype, 3);
      rig.ops.bias_gelu_forward(rig.stream, out, pre, x, zero, 1, 3);
      rig.ops.gelu_backward(rig.stream, d, one, pre);
      rig.ops.bias_relu_forward(rig.stream, relu, zero, 1, 3);
      for (const Tensor* t : {&out, &pre, &d, &relu}) {
        const auto values = t->read();
        CHECK(std::isnan(values[1]));
        CHECK(std::isfinite(values[0]));
        CHECK(std::isfinite(values[2]));
      }
    }
  });
}

TEST_CASE("model operations take zero rows and refuse fp64") {
  on_each_backend([](Rig& rig) {
    const Tensor w(rig, DType::fp32, {1, 2, 3}), g(rig, DType::fp32, {1, 2, 3});
    const TensorView none{nullptr, DType::fp32, 0};
    rig.ops.add_bias(rig.stream, none, w, 0, 3);
    rig.ops.bias_backward(rig.stream, g, none, 0, 3);
    rig.ops.add_bias_residual(rig.stream, none, none, w, 0, 3);
    rig.ops.bias_gelu_forward(rig.stream, none, none, none, w, 0, 3);
    rig.ops.gelu_backward(rig.stream, none, none, none);
    rig.ops.bias_relu_forward(rig.stream, none, w, 0, 3);
    rig.ops.relu_backward(rig.stream, none, none, none);
    rig.ops.layernorm_forward(rig.stream, none, none, none, none, w, w, 0, 3, 1e-5F);
    rig.ops.layernorm_backward(rig.stream, none, g, g, none, ConstTensorView{}, none, w, none, none, 0, 3);
    rig.ops.embedding_forward(rig.stream, none, nullptr, w, w, 0, 1, 3);
    rig.ops.embedding_backward(rig.stream, g, g, none, nullptr, 0, 1, 3);
    check_equal(g.read(), std::vector<double>{1, 2, 3});

    const Tensor d(rig, DType::fp64, 3), low(rig, DType::bf16, {1, 2, 3});
    CHECK_THROWS_AS(rig.ops.add_bias(rig.stream, d, d, 1, 3), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.add_bias(rig.stream, w, low, 1, 3), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.bias_backward(rig.stream, low, w, 1, 3), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.gelu_backward(rig.stream, d, d, d), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.relu_backward(rig.stream, w, low, w), std::invalid_argument);
    CHECK_THROWS_AS(rig.ops.add_bias(rig.stream, w, w, 2, 3), std::invalid_argument);
  });
}

}  // namespace zero1::test
