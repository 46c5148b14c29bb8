// Plain fp64 versions of the model's operations: what the suite compares devices with. They are as
// simple as can be; device_reference_test.cpp checks their gradients by finite differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/device/ops.h"

namespace zero1::test::reference {

using Values = std::vector<double>;

inline std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

inline double gelu_derivative(double x) {
  const double c = std::sqrt(2 / std::acos(-1.0));
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

/// op(A) · op(B), and Σ |a||b| of each element for its error bound.
struct Product {
  Values value, magnitude;
};

inline Product matmul(const Values& a, const Values& b, std::int64_t m, std::int64_t n, std::int64_t k,
                      bool transpose_a, bool transpose_b) {
  Product c{Values(at(m * n)), Values(at(m * n))};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) {
        const double x =
            a[at(transpose_a ? l * m + i : i * k + l)] * b[at(transpose_b ? j * k + l : l * n + j)];
        c.value[at(i * n + j)] += x;
        c.magnitude[at(i * n + j)] += std::abs(x);
      }
    }
  }
  return c;
}

struct LayerNorm {
  Values out, mean, rstd;
};

inline LayerNorm layernorm(const Values& x, const Values& weight, const Values& bias, std::int64_t rows,
                           std::int64_t channels, double eps) {
  LayerNorm r{Values(x.size()), Values(at(rows)), Values(at(rows))};
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* p = x.data() + row * channels;
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < channels; ++c) mean += p[c] / static_cast<double>(channels);
    for (std::int64_t c = 0; c < channels; ++c)
      variance += (p[c] - mean) * (p[c] - mean) / static_cast<double>(channels);
    r.mean[at(row)] = mean;
    r.rstd[at(row)] = 1 / std::sqrt(variance + eps);
    for (std::int64_t c = 0; c < channels; ++c) {
      r.out[at(row * channels + c)] = (p[c] - mean) * r.rstd[at(row)] * weight[at(c)] + bias[at(c)];
    }
  }
  return r;
}

struct LayerNormGrads {
  Values d_x, d_weight, d_bias;
};

inline LayerNormGrads layernorm_backward(const Values& d_out, const Values& x, const Values& weight,
                                         std::int64_t rows, std::int64_t channels, double eps) {
  const LayerNorm f = layernorm(x, weight, Values(weight.size()), rows, channels, eps);
  LayerNormGrads g{Values(x.size()), Values(weight.size()), Values(weight.size())};
  const auto width = static_cast<double>(channels);
  for (std::int64_t row = 0; row < rows; ++row) {
    double mean_d = 0, mean_dn = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::size_t i = at(row * channels + c);
      const double normal = (x[i] - f.mean[at(row)]) * f.rstd[at(row)];
      mean_d += d_out[i] * weight[at(c)] / width;
      mean_dn += d_out[i] * weight[at(c)] * normal / width;
      g.d_weight[at(c)] += d_out[i] * normal;
      g.d_bias[at(c)] += d_out[i];
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::size_t i = at(row * channels + c);
      const double normal = (x[i] - f.mean[at(row)]) * f.rstd[at(row)];
      g.d_x[i] = (d_out[i] * weight[at(c)] - mean_d - normal * mean_dn) * f.rstd[at(row)];
    }
  }
  return g;
}

struct Attention {
  Values out, probs;
};

/// Positions in qkv and out of one head's rows.
struct HeadIndex {
  const AttentionShape& s;
  std::int64_t b, h;
  std::int64_t width() const { return s.heads * s.head_dim; }
  std::size_t qkv(std::int64_t t, int part, std::int64_t d) const {
    return at(((b * s.seq_len + t) * 3 + part) * width() + h * s.head_dim + d);
  }
  std::size_t out(std::int64_t t, std::int64_t d) const {
    return at((b * s.seq_len + t) * width() + h * s.head_dim + d);
  }
  std::size_t prob(std::int64_t i, std::int64_t j) const {
    return at(((b * s.heads + h) * s.seq_len + i) * s.seq_len + j);
  }
};

template <class Fn>
void for_heads(const AttentionShape& s, Fn&& fn) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) fn(HeadIndex{s, b, h});
  }
}

inline Attention attention(const Values& qkv, const AttentionShape& s) {
  Attention r{Values(qkv.size() / 3), Values(at(s.batch * s.heads * s.seq_len * s.seq_len))};
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  for_heads(s, [&](const HeadIndex& x) {
    for (std::int64_t i = 0; i < s.seq_len; ++i) {
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        double score = 0;
        for (std::int64_t d = 0; d < s.head_dim; ++d) score += qkv[x.qkv(i, 0, d)] * qkv[x.qkv(j, 1, d)];
        r.probs[x.prob(i, j)] = score * scale;
        top = std::max(top, score * scale);
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        r.probs[x.prob(i, j)] = std::exp(r.probs[x.prob(i, j)] - top);
        total += r.probs[x.prob(i, j)];
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        r.probs[x.prob(i, j)] /= total;
        for (std::int64_t d = 0; d < s.head_dim; ++d)
          r.out[x.out(i, d)] += r.probs[x.prob(i, j)] * qkv[x.qkv(j, 2, d)];
      }
    }
  });
  return r;
}

inline Values attention_backward(const Values& d_out, const Values& probs, const Values& qkv,
                                 const AttentionShape& s) {
  Values d_qkv(qkv.size());
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  for_heads(s, [&](const HeadIndex& x) {
    for (std::int64_t i = 0; i < s.seq_len; ++i) {
      Values dp(at(s.seq_len));
      double dot = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          dp[at(j)] += d_out[x.out(i, d)] * qkv[x.qkv(j, 2, d)];
          d_qkv[x.qkv(j, 2, d)] += probs[x.prob(i, j)] * d_out[x.out(i, d)];
        }
        dot += dp[at(j)] * probs[x.prob(i, j)];
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        const double ds = probs[x.prob(i, j)] * (dp[at(j)] - dot) * scale;
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          d_qkv[x.qkv(i, 0, d)] += ds * qkv[x.qkv(j, 1, d)];
          d_qkv[x.qkv(j, 1, d)] += ds * qkv[x.qkv(i, 0, d)];
        }
      }
    }
  });
  return d_qkv;
}

struct CrossEntropy {
  double loss = 0;
  Values d_logits;
};

inline CrossEntropy cross_entropy(const Values& logits, const std::vector<std::int32_t>& targets,
                                  std::int64_t vocab, double grad_scale) {
  CrossEntropy r{0, Values(logits.size())};
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const double* p = logits.data() + row * at(vocab);
    const double top = *std::max_element(p, p + vocab);
    double total = 0;
    for (std::int64_t i = 0; i < vocab; ++i) total += std::exp(p[i] - top);
    r.loss += std::log(total) + top - p[targets[row]];
    for (std::int64_t i = 0; i < vocab; ++i) {
      r.d_logits[row * at(vocab) + at(i)] =
          (std::exp(p[i] - top) / total - (i == targets[row] ? 1 : 0)) * grad_scale;
    }
  }
  return r;
}

/// One AdamW update of one element; the moments are updated in place.
inline double adamw(double param, double& m, double& v, double grad, const AdamWArgs& k) {
  param *= 1 - static_cast<double>(k.lr) * k.weight_decay;
  m = k.beta1 * m + (1 - k.beta1) * grad;
  v = k.beta2 * v + (1 - k.beta2) * grad * grad;
  const double correction1 = 1 - std::pow(k.beta1, static_cast<double>(k.step));
  const double correction2 = 1 - std::pow(k.beta2, static_cast<double>(k.step));
  return param - k.lr / correction1 * m / (std::sqrt(v) / std::sqrt(correction2) + k.eps);
}

}  // namespace zero1::test::reference
