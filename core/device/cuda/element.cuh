// Elements in kernels: conversions, and packs of them that move through memory 16 bytes at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"

namespace zero1::cuda {

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
__device__ inline float to_float(Float16 x) {
  return __half2float(std::bit_cast<__half>(x));
}

/// Rounds to nearest even; a NaN stays a NaN.
template <class T>
__device__ inline T from_float(float x) {
  if constexpr (std::is_same_v<T, BFloat16>)
    return std::bit_cast<BFloat16>(__float2bfloat16(x));
  else if constexpr (std::is_same_v<T, Float16>)
    return std::bit_cast<Float16>(__float2half(x));
  else
    return static_cast<T>(x);
}

/// `x` as an element of T holds it.
template <class T>
__device__ inline float as_stored(float x) {
  return to_float(from_float<T>(x));
}

/// W neighbouring elements; with W > 1 they start at a multiple of 16 bytes and fill at least that.
template <class T, int W>
struct alignas(W == 1 ? alignof(T) : 16) Pack {
  T at[W];
};

template <int W, class T>
__device__ inline Pack<T, W> load(const T* p) {
  return *reinterpret_cast<const Pack<T, W>*>(p);
}

template <int W, class T>
__device__ inline void store(T* p, const Pack<T, W>& pack) {
  *reinterpret_cast<Pack<T, W>*>(p) = pack;
}

}  // namespace zero1::cuda
