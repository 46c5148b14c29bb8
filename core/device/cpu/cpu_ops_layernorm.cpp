// Layer normalisation, forward and backward.
#include <algorithm>
#include <cmath>

#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/row_sums.h"
#include "core/device/cpu/vec.h"

namespace zero1::cpu {

namespace {

/// The row as fp32: itself, or widened into `buffer`.
template <class T>
const float* as_floats(const T* row, float* buffer, std::int64_t channels) {
  if constexpr (std::is_same_v<T, float>) {
    return row;
  } else {
    for_lanes(0, channels, [&](std::int64_t c, auto part) { store(buffer + c, load(row + c, part), part); });
    return buffer;
  }
}

template <class T>
void normalize_row(T* out, float* mean, float* rstd, const T* in, const T* weight, const T* bias,
                   std::int64_t channels, float eps, float* buffer) {
  const float* x = as_floats(in, buffer, channels);
  Vec acc{};
  for_lanes(0, channels, [&](std::int64_t c, auto part) { acc += load(x + c, part); });
  const float mu = sum(acc) / static_cast<float>(channels);
  Vec squares{};
  for_lanes(0, channels, [&](std::int64_t c, auto part) {
    const Vec centred = valid(load(x + c, part) - mu, part, 0);
    squares += centred * centred;
  });
  const float scale = 1.0F / std::sqrt(sum(squares) / static_cast<float>(channels) + eps);
  for_lanes(0, channels, [&](std::int64_t c, auto part) {
    const Vec normal = (load(x + c, part) - mu) * scale;
    store(out + c, normal * load(weight + c, part) + load(bias + c, part), part);
  });
  *mean = mu;
  *rstd = scale;
}

/// One row of backward: adds to the block's sums of d_weight and d_bias and writes d_x.
template <class T>
void backward_row(T* d_x, float* weight_sums, float* bias_sums, const T* d_out, const T* d_residual,
                  const T* in, const T* weight, float mean, float rstd, std::int64_t channels) {
  Vec acc{};
  Vec acc_normal{};
  for_lanes(0, channels, [&](std::int64_t c, auto part) {
    const Vec dy = load(d_out + c, part);
    const Vec normal = valid((load(in + c, part) - mean) * rstd, part, 0);
    const Vec d_normal = dy * load(weight + c, part);
    store(weight_sums + c, load(weight_sums + c, part) + dy * normal, part);
    store(bias_sums + c, load(bias_sums + c, part) + dy, part);
    acc += d_normal;
    acc_normal += d_normal * normal;
  });
  const float mean_d = sum(acc) / static_cast<float>(channels);
  const float mean_d_normal = sum(acc_normal) / static_cast<float>(channels);
  for_lanes(0, channels, [&](std::int64_t c, auto part) {
    const Vec normal = (load(in + c, part) - mean) * rstd;
    const Vec d_normal = load(d_out + c, part) * load(weight + c, part);
    Vec dx = (d_normal - mean_d - normal * mean_d_normal) * rstd;
    if (d_residual != nullptr) dx += load(d_residual + c, part);
    store(d_x + c, dx, part);
  });
}

}  // namespace

void CpuOps::layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                               ConstTensorView x, ConstTensorView weight, ConstTensorView bias,
                               std::int64_t rows, std::int64_t channels, float eps) {
  constexpr auto op = "layernorm_forward";
  check_layernorm_forward(out, mean, rstd, x, weight, bias, rows, channels);
  visit_low(op, "out", out.dtype, [&](auto type) {
    using T = decltype(type);
    run(stream, [=](Workers& workers) {
      constexpr std::int64_t step = 16;
      workers.for_each((rows + step - 1) / step, [&](std::int64_t item, Scratch& scratch) {
        float* buffer = scratch.floats(0, channels);
        for (std::int64_t row = item * step; row < std::min(rows, (item + 1) * step); ++row) {
          normalize_row(out.as<T>() + row * channels, mean.as<float>() + row, rstd.as<float>() + row,
                        x.as<T>() + row * channels, weight.as<T>(), bias.as<T>(), channels, eps, buffer);
        }
      });
    });
  });
}

void CpuOps::layernorm_backward(Stream& stream, TensorView d_x, TensorView d_weight, TensorView d_bias,
                                ConstTensorView d_out, ConstTensorView d_residual, ConstTensorView x,
                                ConstTensorView weight, ConstTensorView mean, ConstTensorView rstd,
                                std::int64_t rows, std::int64_t channels) {
  constexpr auto op = "layernorm_backward";
  check_layernorm_backward(d_x, d_weight, d_bias, d_out, d_residual, x, weight, mean, rstd, rows, channels);
  visit_low(op, "d_x", d_x.dtype, [&](auto low) {
    using Low = decltype(low);
    visit_grad<Low>(op, "d_weight", d_weight.dtype, [&](auto grad) {
      using Grad = decltype(grad);
      run(stream, [=](Workers& workers) {
        const std::int64_t blocks = row_blocks(rows);
        float* partial = workers.scratch().floats(0, blocks * 2 * channels);
        const Low* residual = d_residual.data != nullptr ? d_residual.as<Low>() : nullptr;
        workers.for_each(blocks, [&](std::int64_t block, Scratch&) {
          float* weight_sums = partial + block * 2 * channels;
          float* bias_sums = weight_sums + channels;
          std::fill(weight_sums, weight_sums + 2 * channels, 0.0F);
          for (std::int64_t row = block * rows_per_block; row < std::min(rows, (block + 1) * rows_per_block);
               ++row) {
            const std::int64_t at = row * channels;
            backward_row(d_x.as<Low>() + at, weight_sums, bias_sums, d_out.as<Low>() + at,
                         residual != nullptr ? residual + at : nullptr, x.as<Low>() + at, weight.as<Low>(),
                         mean.as<float>()[row], rstd.as<float>()[row], channels);
          }
        });
        add_block_sums(workers, d_weight.as<Grad>(), partial, blocks, 2 * channels, channels);
        add_block_sums(workers, d_bias.as<Grad>(), partial + channels, blocks, 2 * channels, channels);
      });
    });
  });
}

}  // namespace zero1::cpu
