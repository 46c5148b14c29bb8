#include "tests/cuda_emulation/test_kernels.h"

#include "core/device/cuda/launch.h"

namespace zero1::test {
namespace {

constexpr int threads = 64;

int blocks_for(int count) {
  return (count + threads - 1) / threads;
}

__device__ int global_index() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void fill_kernel(float* __restrict__ out, float value, int count) {
  const int i = global_index();
  if (i < count) out[i] = value;
}

__global__ void add_kernel(float* data, float value, int count) {
  const int i = global_index();
  if (i < count) data[i] += value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, offset);
  return value;
}

__global__ void __launch_bounds__(1024) sum_kernel(float* out, const float* in, int count) {
  __shared__ float of_warp[32];
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) sum += in[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    const unsigned warps = (blockDim.x + 31) / 32;
    sum = warp_sum(threadIdx.x < warps ? of_warp[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) *out = sum;
  }
}

template <bool broken>
__global__ void tree_sum_kernel(float* out, const float* in, int count) {
  ZERO1_DYNAMIC_SHARED(float, partial);
  const int me = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int i = me; i < count; i += static_cast<int>(blockDim.x)) sum += in[i];
  partial[me] = sum;
  if (!broken) __syncthreads();
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    if (me < half) partial[me] += partial[me + half];
    if (!broken) __syncthreads();
  }
  if (me == 0) *out = partial[0];
}

__global__ void count_kernel(int* out, const float* in, float limit, int count) {
  __shared__ int of_block;
  if (threadIdx.x == 0) of_block = 0;
  __syncthreads();
  const int i = global_index();
  if (i < count && in[i] > limit) atomicAdd(&of_block, 1);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, of_block);
}

__global__ void shuffles_kernel(int* out) {
  const int me = static_cast<int>(threadIdx.x);
  out[3 * me] = __shfl_down_sync(0xFFFFFFFFu, me, 1, 8);
  out[3 * me + 1] = __shfl_up_sync(0xFFFFFFFFu, me, 1, 8);
  out[3 * me + 2] = __shfl_xor_sync(0xFFFFFFFFu, me, 3, 8);
}

__global__ void ballots_kernel(std::uint32_t* out) {
  const unsigned me = threadIdx.x;
  const int vote = me % 3 == 0 ? 1 : 0;
  if (me % 2 == 0) {
    out[me] = __ballot_sync(0x55555555u, vote);
  } else {
    out[me] = __ballot_sync(0xAAAAAAAAu, vote);
  }
}

__global__ void early_return_kernel(int* out, int stop) {
  if (static_cast<int>(threadIdx.x) < stop) return;
  out[threadIdx.x] = __syncthreads_count(1);
}

__global__ void deadlock_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

__global__ void overrun_kernel(float* out, int count) {
  const int i = global_index();
  if (i <= count) out[i] = static_cast<float>(i);
}

__global__ void racing_blocks_kernel(float* out) {
  if (threadIdx.x == 0) *out += 1.0f;
}

__global__ void copy_kernel(Pointers p) {
  const int i = global_index();
  if (i < p.count) p.out[i] = p.in[i];
}

}  // namespace

void launch_fill(float* out, float value, int count, cudaStream_t stream) {
  cuda::launch(fill_kernel, blocks_for(count), threads, 0, stream, out, value, count);
}
void launch_add(float* data, float value, int count, cudaStream_t stream) {
  cuda::launch(add_kernel, blocks_for(count), threads, 0, stream, data, value, count);
}
void launch_sum(float* out, const float* in, int count, int block, cudaStream_t stream) {
  cuda::launch(sum_kernel, 1, block, 0, stream, out, in, count);
}
void launch_tree_sum(float* out, const float* in, int count, int block, bool broken, cudaStream_t stream) {
  const std::size_t shared = static_cast<std::size_t>(block) * sizeof(float);
  cuda::launch(broken ? tree_sum_kernel<true> : tree_sum_kernel<false>, 1, block, shared, stream, out, in,
               count);
}
void launch_count(int* out, const float* in, float limit, int count, cudaStream_t stream) {
  cuda::launch(count_kernel, blocks_for(count), threads, 0, stream, out, in, limit, count);
}
void launch_shuffles(int* out, int block, cudaStream_t stream) {
  cuda::launch(shuffles_kernel, 1, block, 0, stream, out);
}
void launch_ballots(std::uint32_t* out, int block, cudaStream_t stream) {
  cuda::launch(ballots_kernel, 1, block, 0, stream, out);
}
void launch_early_return(int* out, int stop, int block, cudaStream_t stream) {
  cuda::launch(early_return_kernel, 1, block, 0, stream, out, stop);
}
void launch_deadlock(int block, cudaStream_t stream) {
  cuda::launch(deadlock_kernel, 1, block, 0, stream);
}
void launch_overrun(float* out, int count, cudaStream_t stream) {
  cuda::launch(overrun_kernel, blocks_for(count + 1), threads, 0, stream, out, count);
}
void launch_racing_blocks(float* out, int blocks, cudaStream_t stream) {
  cuda::launch(racing_blocks_kernel, blocks, 4, 0, stream, out);
}
void launch_copy(const Pointers& pointers, cudaStream_t stream) {
  cuda::launch(copy_kernel, blocks_for(pointers.count), threads, 0, stream, pointers);
}

}  // namespace zero1::test
