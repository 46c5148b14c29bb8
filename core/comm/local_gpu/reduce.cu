#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <stdexcept>

#include "core/comm/local_gpu/reduce.h"
#include "core/device/cuda/launch.h"

namespace zero1::local_gpu {
namespace {

constexpr int block_threads = 256;
/// Enough to keep the memory busy; the remaining multiprocessors are left to the compute that overlaps.
constexpr int most_blocks = 256;
/// What one thread loads at once from an input whose address allows it.
constexpr int pack_bytes = 16;

struct Inputs {
  const void* at[max_ranks];
  int count;
};

__device__ inline float widen(float x) {
  return x;
}
__device__ inline double widen(double x) {
  return x;
}
__device__ inline float widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline float widen(__half x) {
  return __half2float(x);
}

__device__ inline void narrow(float& out, float x) {
  out = x;
}
__device__ inline void narrow(double& out, double x) {
  out = x;
}
__device__ inline void narrow(__nv_bfloat16& out, float x) {
  out = __float2bfloat16_rn(x);
}
__device__ inline void narrow(__half& out, float x) {
  out = __float2half_rn(x);
}

template <class T, int width>
struct alignas(width * sizeof(T)) Pack {
  T at[width];
};

/// A NaN on either side wins: comparisons with it are false, so each needs its own question.
template <ReduceOp op, class A>
__device__ inline A combined(A a, A b) {
  if constexpr (op == ReduceOp::max) {
    return b > a || b != b ? b : a;
  } else {
    return a + b;
  }
}

/// One pack of `width` elements per thread and turn. Every input is read once and in rank order.
template <ReduceOp op, class T, int width>
__global__ void reduce_packs(Inputs inputs, T* out, std::int64_t packs) {
  using A = decltype(widen(T()));
  using Packed = Pack<T, width>;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < packs; i += stride) {
    A acc[width];
    const Packed first = static_cast<const Packed*>(inputs.at[0])[i];
    for (int k = 0; k < width; ++k) acc[k] = widen(first.at[k]);
    for (int rank = 1; rank < inputs.count; ++rank) {
      const Packed next = static_cast<const Packed*>(inputs.at[rank])[i];
      for (int k = 0; k < width; ++k) acc[k] = combined<op>(acc[k], A(widen(next.at[k])));
    }
    Packed result;
    for (int k = 0; k < width; ++k) {
      if constexpr (op == ReduceOp::average) acc[k] = acc[k] / static_cast<A>(inputs.count);
      narrow(result.at[k], acc[k]);
    }
    reinterpret_cast<Packed*>(out)[i] = result;
  }
}

template <ReduceOp op, class T, int width>
void launch_packs(cudaStream_t stream, const Inputs& inputs, T* out, std::int64_t packs) {
  if (packs == 0) return;
  const std::int64_t blocks =
      std::min<std::int64_t>((packs + block_threads - 1) / block_threads, most_blocks);
  cuda::launch(reduce_packs<op, T, width>, dim3(static_cast<unsigned>(blocks)), dim3(block_threads), 0,
               stream, inputs, out, packs);
}

bool aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % pack_bytes == 0;
}

template <ReduceOp op, class T>
void reduce_typed(cudaStream_t stream, std::span<const void* const> from, void* to, std::int64_t numel) {
  constexpr int width = pack_bytes / static_cast<int>(sizeof(T));
  Inputs inputs{};
  inputs.count = static_cast<int>(from.size());
  std::copy(from.begin(), from.end(), inputs.at);
  T* out = static_cast<T*>(to);
  const bool packed = aligned(to) && std::all_of(from.begin(), from.end(), aligned);
  const std::int64_t packs = packed ? numel / width : 0;
  launch_packs<op, T, width>(stream, inputs, out, packs);
  const std::int64_t done = packs * width;
  for (int rank = 0; rank < inputs.count; ++rank)
    inputs.at[rank] = static_cast<const T*>(inputs.at[rank]) + done;
  launch_packs<op, T, 1>(stream, inputs, out + done, numel - done);
}

template <class T>
void reduce_by(ReduceOp op, cudaStream_t stream, std::span<const void* const> from, void* to,
               std::int64_t numel) {
  switch (op) {
    case ReduceOp::sum: return reduce_typed<ReduceOp::sum, T>(stream, from, to, numel);
    case ReduceOp::average: return reduce_typed<ReduceOp::average, T>(stream, from, to, numel);
    case ReduceOp::max: return reduce_typed<ReduceOp::max, T>(stream, from, to, numel);
  }
}

}  // namespace

void reduce(cudaStream_t stream, DType dtype, ReduceOp op, std::span<const void* const> inputs, void* out,
            std::int64_t numel) {
  if (inputs.empty() || inputs.size() > static_cast<std::size_t>(max_ranks)) {
    throw std::invalid_argument("local_gpu::reduce: as many inputs as one launch cannot take");
  }
  switch (dtype) {
    case DType::fp32: return reduce_by<float>(op, stream, inputs, out, numel);
    case DType::bf16: return reduce_by<__nv_bfloat16>(op, stream, inputs, out, numel);
    case DType::fp16: return reduce_by<__half>(op, stream, inputs, out, numel);
    case DType::fp64: return reduce_by<double>(op, stream, inputs, out, numel);
  }
}

}  // namespace zero1::local_gpu
