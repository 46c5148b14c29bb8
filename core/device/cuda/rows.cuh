// Tensors as rows of `channels`: columns of elements, and sums over rows.
#pragma once

#include <cstdint>

#include "core/device/cuda/elementwise.cuh"

namespace zero1::cuda {

/// The column of element i. A GPU divides 64-bit numbers slowly, and few tensors need them.
__device__ inline std::int64_t column_of(std::int64_t i, std::int64_t channels) {
  if (((i | channels) >> 32) == 0)
    return static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(channels);
  return i % channels;
}

/// The cut for an operation that also reads `bias` by column: packs must not leave a row.
inline Cut row_cut(std::int64_t n, std::int64_t channels, int width,
                   std::initializer_list<Operand> operands) {
  if (channels == 0 || channels % width != 0) return {};
  const Cut cut = vector_cut(n, width, operands);
  return cut.head == 0 ? cut : Cut{};
}

/// Rows are summed in groups of this many, and the groups' sums in order.
inline constexpr std::int64_t rows_per_group = 64;

inline std::int64_t row_groups(std::int64_t rows) {
  return (rows + rows_per_group - 1) / rows_per_group;
}

/// dst[c] += Σ_g partial[g, c], rounded once; the groups' sums are `stride` apart.
template <class Grad>
__global__ void add_groups_kernel(Grad* dst, const float* partial, std::int64_t groups, std::int64_t stride,
                                  std::int64_t channels) {
  for (std::int64_t c = first_item(); c < channels; c += item_stride()) {
    float total = 0;
    for (std::int64_t g = 0; g < groups; ++g) total += partial[g * stride + c];
    dst[c] = from_float<Grad>(to_float(dst[c]) + total);
  }
}

/// The grid of a kernel with one thread per column and one block row per group of rows.
inline dim3 column_grid(std::int64_t channels, std::int64_t groups) {
  const auto tiles = static_cast<unsigned>((channels + threads_per_block - 1) / threads_per_block);
  return {tiles, static_cast<unsigned>(groups < 65535 ? groups : 65535)};
}

}  // namespace zero1::cuda
