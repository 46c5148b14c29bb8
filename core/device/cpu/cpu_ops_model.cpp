// Embedding, biases, activations and the loss.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/row_sums.h"
#include "core/device/cpu/vec.h"
#include "core/device/cpu/vector_math.h"

namespace zero1::cpu {

namespace {

/// Rows per work item: a function of the width alone, so that no result depends on the team's size.
std::int64_t rows_per_item(std::int64_t channels) {
  return std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(1, channels));
}

/// Calls fn(row) for all rows, in parallel.
template <class Fn>
void for_rows(Workers& workers, std::int64_t rows, std::int64_t channels, Fn&& fn) {
  const std::int64_t step = rows_per_item(channels);
  workers.for_each((rows + step - 1) / step, [&](std::int64_t item, Scratch&) {
    const std::int64_t end = std::min(rows, (item + 1) * step);
    for (std::int64_t row = item * step; row < end; ++row) fn(row);
  });
}

template <class T>
void check_token(std::int32_t token, std::int64_t vocab, std::int64_t position, const T& what) {
  if (token < 0 || token >= vocab) {
    throw Error(std::string(what) + " " + std::to_string(token) + " at position " + std::to_string(position) +
                " is outside of the vocabulary [0, " + std::to_string(vocab) + ")");
  }
}

template <class Grad, class Low>
void add_row(Grad* dst, const Low* src, std::int64_t begin, std::int64_t end) {
  for_lanes(begin, end, [&](std::int64_t c, auto part) {
    store(dst + c, load(dst + c, part) + load(src + c, part), part);
  });
}

/// Calls fn(begin, end) on column ranges that tile [0, channels), in parallel.
template <class Fn>
void for_columns(Workers& workers, std::int64_t channels, Fn&& fn) {
  constexpr std::int64_t step = 128;
  workers.for_each((channels + step - 1) / step, [&](std::int64_t item, Scratch&) {
    fn(item * step, std::min(channels, (item + 1) * step));
  });
}

/// Σ e^(logit - largest) of one row and its largest logit; the exponentials go to `exps` unless null.
struct RowSum {
  float largest;
  double sum;
  double log_sum_exp() const { return std::log(sum) + static_cast<double>(largest); }
};

template <class T>
RowSum sum_exps(const T* logits, std::int64_t vocab, float* exps) {
  Vec largest = splat(-std::numeric_limits<float>::infinity());
  for_lanes(0, vocab, [&](std::int64_t i, auto part) {
    largest = max(valid(load(logits + i, part), part, -std::numeric_limits<float>::infinity()), largest);
  });
  const float top = max(largest);
  double total = 0;
  constexpr std::int64_t block = 1024;  // fp32 sums stay short
  for (std::int64_t start = 0; start < vocab; start += block) {
    Vec acc{};
    for_lanes(start, std::min(vocab, start + block), [&](std::int64_t i, auto part) {
      const Vec e = exp(load(logits + i, part) - top);
      if (exps != nullptr) store(exps + i, e, part);
      acc += valid(e, part, 0);
    });
    total += static_cast<double>(sum(acc));
  }
  return {top, total};
}

void add_in_order(TensorView loss_sum, const std::vector<double>& losses) {
  double total = 0;
  for (const double loss : losses) total += loss;
  *loss_sum.as<double>() += total;
}

}  // namespace

void CpuOps::embedding_forward(Stream& stream, TensorView out, const std::int32_t* tokens,
                               ConstTensorView wte, ConstTensorView wpe, std::int64_t n_tokens,
                               std::int64_t seq_len, std::int64_t channels) {
  constexpr auto op = "embedding_forward";
  check_embedding_forward(out, wte, wpe, n_tokens, seq_len, channels);
  visit_low(op, "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      const std::int64_t vocab = wte.numel / std::max<std::int64_t>(1, channels);
      for_rows(workers, n_tokens, channels, [&](std::int64_t t) {
        check_token(tokens[t], vocab, t, "token");
        const T* token_row = wte.as<T>() + tokens[t] * channels;
        const T* position_row = wpe.as<T>() + t % seq_len * channels;
        T* row = out.as<T>() + t * channels;
        for_lanes(0, channels, [&](std::int64_t c, auto part) {
          store(row + c, load(token_row + c, part) + load(position_row + c, part), part);
        });
      });
    });
  });
}

void CpuOps::embedding_backward(Stream& stream, TensorView d_wte, TensorView d_wpe, ConstTensorView d_out,
                                const std::int32_t* tokens, std::int64_t n_tokens, std::int64_t seq_len,
                                std::int64_t channels) {
  constexpr auto op = "embedding_backward";
  check_embedding_backward(d_wte, d_wpe, d_out, n_tokens, seq_len, channels);
  const auto queue = [&]<class Low, class Grad>(Low, Grad, TensorView grad, auto row_of) {
    run(stream, [=](Workers& workers) {
      for_columns(workers, channels, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = 0; t < n_tokens; ++t) {
          add_row(grad.as<Grad>() + row_of(t) * channels, d_out.as<Low>() + t * channels, begin, end);
        }
      });
    });
  };
  visit_low(op, "d_out", d_out.dtype, [&](auto low) {
    using Low = decltype(low);
    if (d_wte.data != nullptr) {
      const std::int64_t vocab = d_wte.numel / std::max<std::int64_t>(1, channels);
      visit_grad<Low>(op, "d_wte", d_wte.dtype, [&](auto grad) {
        queue(low, grad, d_wte, [tokens, vocab](std::int64_t t) {
          check_token(tokens[t], vocab, t, "token");
          return static_cast<std::int64_t>(tokens[t]);
        });
      });
    }
    if (d_wpe.data != nullptr) {
      visit_grad<Low>(op, "d_wpe", d_wpe.dtype, [&](auto grad) {
        queue(low, grad, d_wpe, [seq_len](std::int64_t t) { return t % seq_len; });
      });
    }
  });
}

void CpuOps::add_bias(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                      std::int64_t channels) {
  check_rows("add_bias", x, bias, rows, channels);
  visit_low("add_bias", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      for_rows(workers, rows, channels,
               [&](std::int64_t row) { add_row(x.as<T>() + row * channels, bias.as<T>(), 0, channels); });
    });
  });
}

void CpuOps::bias_backward(Stream& stream, TensorView d_bias, ConstTensorView d_out, std::int64_t rows,
                           std::int64_t channels) {
  check_bias_backward(d_bias, d_out, rows, channels);
  visit_low("bias_backward", "d_out", d_out.dtype, [&](auto low) {
    using Low = decltype(low);
    visit_grad<Low>("bias_backward", "d_bias", d_bias.dtype, [&](auto grad_type) {
      using Grad = decltype(grad_type);
      run(stream, [=](Workers& workers) {
        sum_rows_into(workers, d_bias.as<Grad>(), d_out.as<Low>(), rows, channels);
      });
    });
  });
}

void CpuOps::add_bias_residual(Stream& stream, TensorView residual, ConstTensorView x, ConstTensorView bias,
                               std::int64_t rows, std::int64_t channels) {
  constexpr auto op = "add_bias_residual";
  check_add_bias_residual(residual, x, bias, rows, channels);
  visit_low(op, "residual", residual.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      const T* b = bias.data != nullptr ? bias.as<T>() : nullptr;
      for_rows(workers, rows, channels, [&](std::int64_t row) {
        T* r = residual.as<T>() + row * channels;
        const T* in = x.as<T>() + row * channels;
        for_lanes(0, channels, [&](std::int64_t c, auto part) {
          Vec value = load(in + c, part);
          if (b != nullptr) value += load(b + c, part);
          store(r + c, load(r + c, part) + value, part);
        });
      });
    });
  });
}

void CpuOps::bias_gelu_forward(Stream& stream, TensorView out, TensorView pre, ConstTensorView x,
                               ConstTensorView bias, std::int64_t rows, std::int64_t channels) {
  constexpr auto op = "bias_gelu_forward";
  check_bias_gelu_forward(out, pre, x, bias, rows, channels);
  visit_low(op, "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      for_rows(workers, rows, channels, [&](std::int64_t row) {
        const T* in = x.as<T>() + row * channels;
        T* before = pre.as<T>() + row * channels;
        T* after = out.as<T>() + row * channels;
        for_lanes(0, channels, [&](std::int64_t c, auto part) {
          // Backward will see the rounded value, so forward uses it, too.
          const Vec value = as_stored<T>(load(in + c, part) + load(bias.as<T>() + c, part));
          store(before + c, value, part);
          store(after + c, value * Gelu(value).gate, part);
        });
      });
    });
  });
}

void CpuOps::gelu_backward(Stream& stream, TensorView d_pre, ConstTensorView d_out, ConstTensorView pre) {
  check_like("gelu_backward", d_pre, {"d_out", d_out}, {"pre", pre});
  visit_low("gelu_backward", "d_pre", d_pre.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      workers.split(d_pre.numel, [&](std::int64_t begin, std::int64_t end) {
        for_lanes(begin, end, [&](std::int64_t i, auto part) {
          const Vec slope = Gelu(load(pre.as<T>() + i, part)).slope();
          store(d_pre.as<T>() + i, load(d_out.as<T>() + i, part) * slope, part);
        });
      });
    });
  });
}

void CpuOps::bias_relu_forward(Stream& stream, TensorView x, ConstTensorView bias, std::int64_t rows,
                               std::int64_t channels) {
  check_rows("bias_relu_forward", x, bias, rows, channels);
  visit_low("bias_relu_forward", "x", x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      for_rows(workers, rows, channels, [&](std::int64_t row) {
        T* p = x.as<T>() + row * channels;
        for_lanes(0, channels, [&](std::int64_t c, auto part) {
          store(p + c, max(load(p + c, part) + load(bias.as<T>() + c, part), Vec{}), part);
        });
      });
    });
  });
}

void CpuOps::relu_backward(Stream& stream, TensorView d_x, ConstTensorView d_out, ConstTensorView out) {
  check_like("relu_backward", d_x, {"d_out", d_out}, {"out", out});
  visit_low("relu_backward", "d_x", d_x.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      workers.split(d_x.numel, [&](std::int64_t begin, std::int64_t end) {
        for_lanes(begin, end, [&](std::int64_t i, auto part) {
          const Vec open = load(out.as<T>() + i, part);
          store(d_x.as<T>() + i, open > Vec{} ? load(d_out.as<T>() + i, part) : Vec{}, part);
        });
      });
    });
  });
}

void CpuOps::cross_entropy(Stream& stream, TensorView loss_sum, TensorView logits,
                           const std::int32_t* targets, std::int64_t rows, std::int64_t vocab,
                           float grad_scale) {
  check_cross_entropy("cross_entropy", loss_sum, logits, rows, vocab);
  visit_low("cross_entropy", "logits", logits.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      std::vector<double> losses(static_cast<std::size_t>(rows));
      workers.for_each(rows, [&](std::int64_t row, Scratch& scratch) {
        T* p = logits.as<T>() + row * vocab;
        const std::int32_t target = targets[row];
        check_token(target, vocab, row, "target");
        float* exps = nullptr;
        const float target_logit = static_cast<float>(p[target]);
        if constexpr (std::is_same_v<T, float>)
          exps = p;
        else
          exps = scratch.floats(0, vocab);
        const RowSum row_sum = sum_exps(p, vocab, exps);
        losses[static_cast<std::size_t>(row)] = row_sum.log_sum_exp() - static_cast<double>(target_logit);
        const float factor = static_cast<float>(static_cast<double>(grad_scale) / row_sum.sum);
        const float target_grad = exps[target] * factor - grad_scale;
        for_lanes(0, vocab,
                  [&](std::int64_t i, auto part) { store(p + i, load(exps + i, part) * factor, part); });
        p[target] = static_cast<T>(target_grad);
      });
      add_in_order(loss_sum, losses);
    });
  });
}

void CpuOps::cross_entropy_loss(Stream& stream, TensorView loss_sum, ConstTensorView logits,
                                const std::int32_t* targets, std::int64_t rows, std::int64_t vocab) {
  check_cross_entropy("cross_entropy_loss", loss_sum, logits, rows, vocab);
  visit_low("cross_entropy_loss", "logits", logits.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      std::vector<double> losses(static_cast<std::size_t>(rows));
      workers.for_each(rows, [&](std::int64_t row, Scratch&) {
        const T* p = logits.as<T>() + row * vocab;
        check_token(targets[row], vocab, row, "target");
        losses[static_cast<std::size_t>(row)] = sum_exps(p, vocab, nullptr).log_sum_exp() -
                                                static_cast<double>(static_cast<float>(p[targets[row]]));
      });
      add_in_order(loss_sum, losses);
    });
  });
}

}  // namespace zero1::cpu
