// Runs one functor over all elements, W at a time where the addresses allow it.
//
// A functor has `template <int W> __device__ void apply(std::int64_t i) const`, which handles elements
// [i, i + W). Vector body and scalar rest call the same code, so they give the same bits (fused
// multiply-add is off for these files). On sm_90 they take at most 64 registers and spill none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/device/cuda/cuda_stream.h"
#include "core/device/cuda/element.cuh"
#include "core/device/cuda/launch.h"

namespace zero1::cuda {

inline constexpr int threads_per_block = 256;

/// Blocks for `items` threads' worth of work; more work than that many blocks is done by looping. Eight
/// blocks fill a multiprocessor; the GPUs that this is built for have up to 144 of those.
inline unsigned blocks_for(std::int64_t items, int threads = threads_per_block) {
  constexpr std::int64_t most = std::int64_t{8} * 144;
  return static_cast<unsigned>(std::clamp<std::int64_t>((items + threads - 1) / threads, 1, most));
}

/// The same for sums, whose barriers cost more than a few turns of a loop.
inline unsigned blocks_for_sum(std::int64_t items) {
  return blocks_for((items + 15) / 16);
}

/// The first of this thread's items, and the distance to the next.
__device__ inline std::int64_t first_item() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t item_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// One tensor of an elementwise operation, for the choice of the vector body.
struct Operand {
  const void* data;
  std::size_t element_bytes;
};

/// n elements as `head` single ones, `packs` packs of W, and the rest.
struct Cut {
  std::int64_t head = 0;
  std::int64_t packs = 0;
};

/// The cut that puts every operand's packs at multiples of 16 bytes; no packs if there is none.
inline Cut vector_cut(std::int64_t n, int width, std::initializer_list<Operand> operands) {
  for (std::int64_t head = 0; head < std::min<std::int64_t>(width, n); ++head) {
    const bool aligned = std::all_of(operands.begin(), operands.end(), [&](const Operand& x) {
      const auto address = reinterpret_cast<std::uintptr_t>(x.data);
      return x.data == nullptr || (address + static_cast<std::size_t>(head) * x.element_bytes) % 16 == 0;
    });
    if (aligned) return {head, (n - head) / width};
  }
  return {};
}

template <int W, class Functor>
__global__ void __launch_bounds__(threads_per_block)
    elementwise_kernel(std::int64_t n, Cut cut, Functor functor) {
  for (std::int64_t pack = first_item(); pack < cut.packs; pack += item_stride()) {
    functor.template apply<W>(cut.head + pack * W);
  }
  const std::int64_t singles = n - cut.packs * W;
  for (std::int64_t i = first_item(); i < singles; i += item_stride()) {
    functor.template apply<1>(i < cut.head ? i : i + cut.packs * W);
  }
}

/// Queues functor.apply over [0, n). W is 16 bytes of the smallest element type.
template <int W, class Functor>
void for_elements(const QueuedStream& stream, std::int64_t n, Cut cut, const Functor& functor) {
  if (n == 0) return;
  stream.use_gpu();
  const std::int64_t singles = n - cut.packs * W;
  launch(&elementwise_kernel<W, Functor>, blocks_for(std::max(cut.packs, singles)), threads_per_block, 0,
         stream.handle(), n, cut, functor);
}

/// How many elements of each of these types a thread handles at once: 16 bytes of the smallest.
template <class... T>
inline constexpr int pack_width = static_cast<int>(16 / std::min({sizeof(T)...}));

/// The pointer of a view, as the kernel's element type.
template <class T>
T* pointer(const TensorView& view) {
  return static_cast<T*>(view.data);
}
template <class T>
const T* pointer(const ConstTensorView& view) {
  return static_cast<const T*>(view.data);
}

template <class View>
Operand operand(const View& view) {
  return {view.data, static_cast<std::size_t>(size_bytes(view.dtype))};
}

}  // namespace zero1::cuda
