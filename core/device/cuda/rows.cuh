// Tensors as rows of `channels`: columns of elements, and sums over rows.
#pragma once

#include <cstdint>
#include <type_traits>

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

// ---- one block per row, 16 bytes per thread at a time (on sm_90: at most 52 registers, none spilled) ----

/// Elements of T in 16 bytes.
template <class T>
inline constexpr int row_width = 16 / static_cast<int>(sizeof(T));

/// Whole warps, enough for a row's packs, at most threads_per_block.
template <class T>
unsigned row_threads(std::int64_t channels) {
  const std::int64_t packs = (channels + row_width<T> - 1) / row_width<T>;
  return static_cast<unsigned>(std::clamp<std::int64_t>((packs + 31) / 32 * 32, 32, threads_per_block));
}

inline unsigned row_blocks(std::int64_t rows) {
  return static_cast<unsigned>(std::min<std::int64_t>(rows, 1 << 20));
}

/// May the packs of every row be loaded as such? Null pointers are not.
template <class T>
bool rows_aligned(std::int64_t channels, std::initializer_list<const void*> tensors) {
  return channels % row_width<T> == 0 && std::all_of(tensors.begin(), tensors.end(), [](const void* p) {
           return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
         });
}

/// Calls visit(width, c) for the elements [c, c + width) of a row: this thread's packs, then its share of the
/// rest one by one. Which thread gets which element, and in what order, `count` and the block's size decide
/// alone, so that sums have the same bits with and without aligned loads.
template <int W, class Visit>
__device__ inline void for_row(std::int64_t count, const Visit& visit) {
  const std::int64_t packs = count / W;
  for (std::int64_t p = threadIdx.x; p < packs; p += blockDim.x)
    visit(std::integral_constant<int, W>{}, p * W);
  for (std::int64_t c = packs * W + threadIdx.x; c < count; c += blockDim.x)
    visit(std::integral_constant<int, 1>{}, c);
}

template <int W, class T>
__device__ inline Pack<T, W> load_row(const T* p, bool aligned) {
  if (aligned) return load<W>(p);
  Pack<T, W> pack;
  for (int k = 0; k < W; ++k) pack.at[k] = p[k];
  return pack;
}

template <int W, class T>
__device__ inline void store_row(T* p, const Pack<T, W>& pack, bool aligned) {
  if (aligned) return store<W>(p, pack);
  for (int k = 0; k < W; ++k) p[k] = pack.at[k];
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
