// CUDA's atomics: relaxed, device-wide, returning the old value. A float's goes through its bits.
#pragma once

#include <bit>
#include <cstdint>

namespace cuda_emulation {

/// Replaces *address by update(old) in one step; returns the old value.
template <class T, class Update>
inline __attribute__((always_inline)) T atomic_update(T* address, Update update) {
  T old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  T desired = update(old);
  while (!__atomic_compare_exchange(address, &old, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    desired = update(old);
  }
  return old;
}

}  // namespace cuda_emulation

#define ZERO1_INTEGER_ATOMICS(type)                                                                \
  inline type atomicAdd(type* p, type v) {                                                         \
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                             \
  }                                                                                                \
  inline type atomicOr(type* p, type v) {                                                          \
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);                                              \
  }                                                                                                \
  inline type atomicAnd(type* p, type v) {                                                         \
    return __atomic_fetch_and(p, v, __ATOMIC_RELAXED);                                             \
  }                                                                                                \
  inline type atomicExch(type* p, type v) {                                                        \
    return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);                                            \
  }                                                                                                \
  inline type atomicMax(type* p, type v) {                                                         \
    return cuda_emulation::atomic_update(p, [v](type old) { return old > v ? old : v; });          \
  }                                                                                                \
  inline type atomicMin(type* p, type v) {                                                         \
    return cuda_emulation::atomic_update(p, [v](type old) { return old < v ? old : v; });          \
  }                                                                                                \
  inline type atomicCAS(type* p, type expected, type desired) {                                    \
    __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    return expected;                                                                               \
  }
ZERO1_INTEGER_ATOMICS(int)
ZERO1_INTEGER_ATOMICS(unsigned)
ZERO1_INTEGER_ATOMICS(unsigned long long)
#undef ZERO1_INTEGER_ATOMICS

/// Also seen by the host while the kernel runs.
inline int atomicExch_system(int* p, int v) {
  return atomicExch(p, v);
}
inline int atomicSub(int* p, int v) {
  return atomicAdd(p, -v);
}
inline unsigned atomicSub(unsigned* p, unsigned v) {
  return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);
}
inline float atomicAdd(float* p, float v) {
  return cuda_emulation::atomic_update(p, [v](float old) { return old + v; });
}
inline double atomicAdd(double* p, double v) {
  return cuda_emulation::atomic_update(p, [v](double old) { return old + v; });
}
inline float atomicExch(float* p, float v) {
  return cuda_emulation::atomic_update(p, [v](float) { return v; });
}
