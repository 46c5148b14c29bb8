// What a kernel's body may use: its indices, shared memory, barriers, warp shuffles and votes.
#pragma once

#include <cstring>
#include <type_traits>

#include "types.h"

/// All threads of a block run on one thread of the operating system, and blocks one after another.
#define __shared__ static thread_local
#define ZERO1_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::cuda_emulation::dynamic_shared)

inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;

namespace cuda_emulation {

inline constinit thread_local void* dynamic_shared = nullptr;

/// Waits for all threads of the block that have not returned; gives the sum of their votes.
unsigned block_barrier(unsigned vote);

/// What the lanes of a warp hand each other at one shuffle or vote.
struct WarpValues {
  std::uint64_t value[32];
  unsigned arrived;  ///< one bit per lane that took part
};

/// Waits for the warp's lanes of `mask` that have not returned.
WarpValues warp_exchange(unsigned mask, std::uint64_t value);

/// Lets other threads of the block run: a spinning kernel must call it (__nanosleep).
void yield_thread();

void thread_fence();

inline unsigned thread_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
inline int lane() {
  return static_cast<int>(thread_in_block() % 32);
}

/// The source lane's value; the caller's own where the source is out of range; all bits set (a NaN) where
/// that lane did not take part, which CUDA leaves undefined.
template <class T>
T shuffle(unsigned mask, T value, int source, bool in_range) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const WarpValues all = warp_exchange(mask, bits);
  if (!in_range) return value;
  bits = (all.arrived >> source & 1u) != 0 ? all.value[source] : ~std::uint64_t{0};
  T result;
  std::memcpy(static_cast<void*>(&result), &bits, sizeof result);
  return result;
}

}  // namespace cuda_emulation

inline void __syncthreads() {
  cuda_emulation::block_barrier(0);
}
inline int __syncthreads_count(int predicate) {
  return static_cast<int>(cuda_emulation::block_barrier(predicate != 0 ? 1u : 0u));
}
inline int __syncthreads_or(int predicate) {
  return __syncthreads_count(predicate) != 0 ? 1 : 0;
}
inline int __syncthreads_and(int predicate) {
  return __syncthreads_count(predicate == 0) == 0 ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) {
  cuda_emulation::warp_exchange(mask, 0);
}
inline void __threadfence() {
  cuda_emulation::thread_fence();
}
inline void __threadfence_block() {
  cuda_emulation::thread_fence();
}
inline void __threadfence_system() {
  cuda_emulation::thread_fence();
}
inline void __nanosleep(unsigned) {
  cuda_emulation::yield_thread();
}

// Shuffles inside segments of `width` lanes (a power of two), like CUDA's.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int start = cuda_emulation::lane() & ~(width - 1);
  return cuda_emulation::shuffle(mask, value, start + (source & (width - 1)), true);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int source = cuda_emulation::lane() - static_cast<int>(delta);
  const int start = cuda_emulation::lane() & ~(width - 1);
  return cuda_emulation::shuffle(mask, value, source < start ? 0 : source, source >= start);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int source = cuda_emulation::lane() + static_cast<int>(delta);
  const int end = (cuda_emulation::lane() & ~(width - 1)) + width;
  return cuda_emulation::shuffle(mask, value, source < end ? source : 0, source < end);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const int source = cuda_emulation::lane() ^ lane_mask;
  const int end = (cuda_emulation::lane() & ~(width - 1)) + width;
  return cuda_emulation::shuffle(mask, value, source < end ? source : 0, source < end);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const cuda_emulation::WarpValues all = cuda_emulation::warp_exchange(mask, predicate != 0 ? 1 : 0);
  unsigned ballot = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((all.arrived >> i & 1u) != 0 && all.value[i] != 0) ballot |= 1u << i;
  }
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate == 0) == 0 ? 1 : 0;
}
