// Compiled without TSan, which would mistake the switching itself for races.
#include "runtime/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "runtime/errors.h"

#ifdef ZERO1_EMULATION_TELLS_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if ZERO1_UNDER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

// Pushes the registers that a called function must preserve, stores the stack pointer in *save, takes `load`
// as stack pointer and pops. The floating-point modes are left alone: kernels do not change them.
extern "C" void zero1_emulation_switch_stack(void** save, void* load);

#if defined(__x86_64__)
constexpr int saved_registers = 6;
asm(R"(
.text
.globl zero1_emulation_switch_stack
.hidden zero1_emulation_switch_stack
.type zero1_emulation_switch_stack,@function
zero1_emulation_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size zero1_emulation_switch_stack, .-zero1_emulation_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl zero1_emulation_switch_stack
.hidden zero1_emulation_switch_stack
.type zero1_emulation_switch_stack,%function
zero1_emulation_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size zero1_emulation_switch_stack, .-zero1_emulation_switch_stack
)");
#else
#error \
    "the emulation of blocks needs a stack switch for this processor (tests/cuda_emulation/runtime/fiber.cpp)"
#endif

namespace cuda_emulation {
namespace {

#if ZERO1_UNDER_ASAN
constexpr std::size_t usable_bytes = std::size_t{256} << 10;
#else
constexpr std::size_t usable_bytes = std::size_t{64} << 10;
#endif
constexpr std::size_t guard_bytes = 4096;

/// A stack from which the first switch "returns" into `entry`.
void* first_frame(char* end, void (*entry)()) {
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(end);
  *--top = nullptr;  // entry's return address: it never returns
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < saved_registers; ++i) *--top = nullptr;
#else
  void** top = reinterpret_cast<void**>(end - 160);
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = reinterpret_cast<void*>(entry);  // x30, the address that `ret` goes to
#endif
  return top;
}

}  // namespace

Fiber::Fiber(void (*entry)()) : owns_stack_(true), stack_bytes_(usable_bytes) {
  void* const mapped = ::mmap(nullptr, guard_bytes + usable_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED || ::mprotect(mapped, guard_bytes, PROT_NONE) != 0) {
    fatal("no memory for the stack of a block's thread");
  }
  stack_ = static_cast<char*>(mapped) + guard_bytes;
  stack_pointer_ = first_frame(stack_ + stack_bytes_, entry);
}

Fiber::~Fiber() {
  end_tsan_thread();
  if (owns_stack_) ::munmap(stack_ - guard_bytes, guard_bytes + usable_bytes);
}

void Fiber::become_tsan_thread() {
#ifdef ZERO1_EMULATION_TELLS_TSAN
  tsan_thread_ = __tsan_create_fiber(0);
#endif
}

void Fiber::adopt_current_tsan_thread() {
#ifdef ZERO1_EMULATION_TELLS_TSAN
  tsan_thread_ = __tsan_get_current_fiber();
#endif
}

void Fiber::end_tsan_thread() {
#ifdef ZERO1_EMULATION_TELLS_TSAN
  if (owns_stack_ && tsan_thread_ != nullptr) __tsan_destroy_fiber(tsan_thread_);
#endif
  tsan_thread_ = nullptr;
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  from.thread_index = threadIdx;
  threadIdx = to.thread_index;
#ifdef ZERO1_EMULATION_TELLS_TSAN
  if (to.tsan_thread_ != nullptr) __tsan_switch_to_fiber(to.tsan_thread_, __tsan_switch_to_fiber_no_sync);
#endif
#if ZERO1_UNDER_ASAN
  __sanitizer_start_switch_fiber(&from.asan_fake_stack_, to.stack_, to.stack_bytes_);
#endif
  zero1_emulation_switch_stack(&from.stack_pointer_, to.stack_pointer_);
#if ZERO1_UNDER_ASAN
  __sanitizer_finish_switch_fiber(from.asan_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::entered([[maybe_unused]] Fiber& starter) {
#if ZERO1_UNDER_ASAN
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  // The very first fiber is entered from the OS thread's own stack, whose extent ASan tells only here.
  if (starter.stack_ == nullptr) {
    starter.stack_ = static_cast<char*>(const_cast<void*>(bottom));
    starter.stack_bytes_ = bytes;
  }
#endif
}

}  // namespace cuda_emulation
