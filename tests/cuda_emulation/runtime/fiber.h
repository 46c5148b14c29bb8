// Threads of a block: stacks of their own on one OS thread, switched in a few nanoseconds.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "tests/support/sanitizers.h"

namespace cuda_emulation {

/// One stack and what it was doing. Sanitizers are told of every switch.
class Fiber {
 public:
  Fiber() = default;  ///< the OS thread's own stack
  explicit Fiber(void (*entry)());
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// TSan sees what the fiber runs as a thread of its own, created by the calling one.
  void become_tsan_thread();
  void adopt_current_tsan_thread();
  void end_tsan_thread();

  /// Leaves `from`, which is running, for `to`.
  static void switch_to(Fiber& from, Fiber& to);

  /// The first thing that a new fiber's entry calls; `starter` is the OS thread's own fiber.
  static void entered(Fiber& starter);

  uint3 thread_index{};  ///< kept for the kernel while another fiber runs

 private:
  const bool owns_stack_ = false;
  void* stack_pointer_ = nullptr;
  char* stack_ = nullptr;  ///< the lowest address that may be used
  std::size_t stack_bytes_ = 0;
#if ZERO1_UNDER_ASAN
  void* asan_fake_stack_ = nullptr;
#endif
  void* tsan_thread_ = nullptr;
};

}  // namespace cuda_emulation
