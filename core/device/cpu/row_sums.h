// Sums over rows, per column, in an order that depends on the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device/cpu/vec.h"
#include "core/device/cpu/workers.h"

namespace zero1::cpu {

/// Rows are summed in blocks of this many, and the blocks' sums in order.
inline constexpr std::int64_t rows_per_block = 64;

inline std::int64_t row_blocks(std::int64_t rows) {
  return (rows + rows_per_block - 1) / rows_per_block;
}

/// dst[c] += Σ_block partial[block, c]: the second half of every sum over rows.
template <class Grad>
void add_block_sums(Workers& workers, Grad* dst, const float* partial, std::int64_t blocks,
                    std::int64_t stride, std::int64_t channels) {
  constexpr std::int64_t step = 256;
  workers.for_each((channels + step - 1) / step, [&](std::int64_t item, Scratch&) {
    for_lanes(item * step, std::min(channels, (item + 1) * step), [&](std::int64_t c, auto part) {
      Vec total{};
      for (std::int64_t b = 0; b < blocks; ++b) total += load(partial + b * stride + c, part);
      store(dst + c, load(dst + c, part) + total, part);
    });
  });
}

/// dst[c] += Σ_row src[row, c], in fp32, rounded once.
template <class Grad, class Low>
void sum_rows_into(Workers& workers, Grad* dst, const Low* src, std::int64_t rows, std::int64_t channels) {
  const std::int64_t blocks = row_blocks(rows);
  float* partial = workers.scratch().floats(0, blocks * channels);
  workers.for_each(blocks, [&](std::int64_t block, Scratch&) {
    float* sums = partial + block * channels;
    std::fill(sums, sums + channels, 0.0F);
    const std::int64_t end = std::min(rows, (block + 1) * rows_per_block);
    for (std::int64_t row = block * rows_per_block; row < end; ++row) {
      for_lanes(0, channels, [&](std::int64_t c, auto part) {
        store(sums + c, load(sums + c, part) + load(src + row * channels + c, part), part);
      });
    }
  });
  add_block_sums(workers, dst, partial, blocks, channels, channels);
}

}  // namespace zero1::cpu
