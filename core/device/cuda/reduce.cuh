// Reductions within a block, in an order that depends on the block's size alone.
#pragma once

#include <cstdint>

#include "core/device/cuda/element.cuh"

namespace zero1::cuda {

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// NaN is ignored: sums find it.
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// All threads' values combined; every thread gets the result. `neutral` stands for absent threads. To be
/// called by all threads of a block of whole warps.
template <class T, class Op>
__device__ T block_reduce(T value, T neutral, Op op) {
  __shared__ T of_warp[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_down_sync(0xFFFFFFFFu, value, static_cast<unsigned>(distance)));
  }
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  T total = neutral;
  for (unsigned w = 0; w < warps; ++w) total = op(total, of_warp[w]);
  __syncthreads();  // the next call writes the same memory
  return total;
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, T{}, Sum{});
}

template <class T>
__device__ T block_max(T value, T lowest) {
  return block_reduce(value, lowest, Max{});
}

}  // namespace zero1::cuda
