// IEEE half precision in kernels: storage and conversions, rounding to nearest even as the GPU does.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "cuda_runtime.h"

struct __half_raw {
  unsigned short x;
};

struct alignas(2) __half {
  std::uint16_t bits;

  __half() = default;
  __forceinline__ __half(const __half_raw& raw) : bits(raw.x) {}
  __forceinline__ explicit __half(float value)
      : bits(value == value ? zero1::Float16(value).bits : static_cast<std::uint16_t>(0x7FFFu)) {}
  __forceinline__ operator float() const {
    zero1::Float16 stored;
    stored.bits = bits;
    return static_cast<float>(stored);
  }
  __forceinline__ operator __half_raw() const { return {bits}; }
};
using half = __half;

struct alignas(4) __half2 {
  __half x, y;
};
using half2 = __half2;

__forceinline__ float __half2float(__half v) {
  return static_cast<float>(v);
}
__forceinline__ __half __float2half(float v) {
  return __half(v);
}
__forceinline__ __half __float2half_rn(float v) {
  return __half(v);
}
__forceinline__ __half2 __floats2half2_rn(float x, float y) {
  return {__half(x), __half(y)};
}
__forceinline__ __half2 __float22half2_rn(float2 v) {
  return __floats2half2_rn(v.x, v.y);
}
__forceinline__ float2 __half22float2(__half2 v) {
  return {static_cast<float>(v.x), static_cast<float>(v.y)};
}
__forceinline__ float __low2float(__half2 v) {
  return static_cast<float>(v.x);
}
__forceinline__ float __high2float(__half2 v) {
  return static_cast<float>(v.y);
}
__forceinline__ unsigned short __half_as_ushort(__half v) {
  return v.bits;
}
__forceinline__ __half __ushort_as_half(unsigned short v) {
  return __half_raw{v};
}
