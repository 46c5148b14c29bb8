// bfloat16 in kernels: storage and conversions, rounding to nearest even as the GPU does.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda_runtime.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};

struct alignas(2) __nv_bfloat16 {
  std::uint16_t bits;

  __nv_bfloat16() = default;
  __forceinline__ __nv_bfloat16(const __nv_bfloat16_raw& raw) : bits(raw.x) {}
  __forceinline__ explicit __nv_bfloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<std::uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFu : rounded);
  }
  __forceinline__ operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  __forceinline__ operator __nv_bfloat16_raw() const { return {bits}; }
};
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat162 = __nv_bfloat162;

__forceinline__ float __bfloat162float(__nv_bfloat16 v) {
  return static_cast<float>(v);
}
__forceinline__ __nv_bfloat16 __float2bfloat16(float v) {
  return __nv_bfloat16(v);
}
__forceinline__ __nv_bfloat16 __float2bfloat16_rn(float v) {
  return __nv_bfloat16(v);
}
__forceinline__ __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
__forceinline__ __nv_bfloat162 __float22bfloat162_rn(float2 v) {
  return __floats2bfloat162_rn(v.x, v.y);
}
__forceinline__ float2 __bfloat1622float2(__nv_bfloat162 v) {
  return {static_cast<float>(v.x), static_cast<float>(v.y)};
}
__forceinline__ float __low2float(__nv_bfloat162 v) {
  return static_cast<float>(v.x);
}
__forceinline__ float __high2float(__nv_bfloat162 v) {
  return static_cast<float>(v.y);
}
__forceinline__ unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) {
  return v.bits;
}
__forceinline__ __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) {
  return __nv_bfloat16_raw{v};
}
