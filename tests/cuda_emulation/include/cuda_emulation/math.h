// Device math that <cmath> lacks. The fast intrinsics are exact here: kernels must not rely on their errors.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

using std::isfinite;
using std::isinf;
using std::isnan;
using std::max;
using std::min;

// glibc declares some of these names itself, hence noexcept and C linkage.
extern "C" {
inline float __expf(float x) noexcept {
  return expf(x);
}
inline float __logf(float x) noexcept {
  return logf(x);
}
inline float __powf(float x, float y) noexcept {
  return powf(x, y);
}
inline float __sinf(float x) noexcept {
  return sinf(x);
}
inline float __cosf(float x) noexcept {
  return cosf(x);
}
inline float __tanhf(float x) noexcept {
  return tanhf(x);
}
inline float __log2f(float x) noexcept {
  return log2f(x);
}
}
inline float __exp10f(float x) {
  return powf(10.0F, x);
}
inline float rsqrtf(float x) {
  return 1.0F / sqrtf(x);
}
inline double rsqrt(double x) {
  return 1.0 / sqrt(x);
}
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / sqrt(static_cast<double>(x)));
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float __frcp_rn(float x) {
  return 1.0F / x;
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fsub_rn(float x, float y) {
  return x - y;
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}
inline float __fmaf_rn(float x, float y, float z) {
  return fmaf(x, y, z);
}
inline double __dadd_rn(double x, double y) {
  return x + y;
}
inline double __dsub_rn(double x, double y) {
  return x - y;
}
inline double __dmul_rn(double x, double y) {
  return x * y;
}
inline double __ddiv_rn(double x, double y) {
  return x / y;
}
inline double __dsqrt_rn(double x) {
  return sqrt(x);
}
inline double __fma_rn(double x, double y, double z) {
  return fma(x, y, z);
}
inline float __saturatef(float x) {
  return fminf(fmaxf(x, 0.0F), 1.0F);
}
inline float __double2float_rn(double x) {
  return static_cast<float>(x);
}
inline float __int2float_rn(int x) {
  return static_cast<float>(x);
}
inline int __float2int_rn(float x) {
  return static_cast<int>(nearbyintf(x));
}

inline std::uint32_t __float_as_uint(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
inline float __uint_as_float(std::uint32_t x) {
  return std::bit_cast<float>(x);
}
inline int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
inline float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}

inline int __popc(unsigned x) {
  return std::popcount(x);
}
inline int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(x) * y) >> 32);
}

// Loads and stores with a cache hint: the hint is ignored.
template <class T>
inline __attribute__((always_inline)) T __ldg(const T* p) {
  return *p;
}
template <class T>
inline __attribute__((always_inline)) T __ldcs(const T* p) {
  return *p;
}
template <class T>
inline __attribute__((always_inline)) T __ldcg(const T* p) {
  return *p;
}
template <class T>
inline __attribute__((always_inline)) void __stcs(T* p, T value) {
  *p = value;
}
template <class T>
inline __attribute__((always_inline)) void __stcg(T* p, T value) {
  *p = value;
}

[[noreturn]] inline void __trap() {
  __builtin_trap();
}
