// Runs the threads of a block: as fibers, in turn, until each waits for the others or returns.
#pragma once

#include <cuda_runtime.h>

#include "runtime/fiber.h"

namespace cuda_emulation {

inline constexpr unsigned max_block_threads = 1024;

/// A queue of fibers without allocation: this code runs beside sanitizers that watch everything else.
template <unsigned capacity>
class FiberList {
 public:
  bool empty() const { return count_ == 0; }
  void push(Fiber* fiber) { fibers_[(head_ + count_++) % capacity] = fiber; }
  Fiber* pop() {
    Fiber* const fiber = fibers_[head_];
    head_ = (head_ + 1) % capacity;
    --count_;
    return fiber;
  }

 private:
  Fiber* fibers_[capacity] = {};
  unsigned head_ = 0;
  unsigned count_ = 0;
};

/// One block at a time, on the OS thread that owns it. A thread that never waits for others costs a
/// function call; one that does gets a stack of its own.
class BlockRunner {
 public:
  /// With race_check every thread of the block is a thread to TSan.
  explicit BlockRunner(bool race_check) : race_check_(race_check) {}
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;
  ~BlockRunner();

  void run(KernelLaunch& launch, uint3 block_index);

  /// The one whose thread is running on this OS thread.
  static BlockRunner& current();

  unsigned barrier(unsigned vote);
  WarpValues exchange(unsigned mask, std::uint64_t value);
  void yield();

 private:
  /// One rendezvous of a warp's lanes. It is done when all lanes of `mask` that still run are there.
  struct Exchange {
    unsigned mask = 0;
    unsigned present = 0;
    unsigned left = 0;
    bool done = false;
    WarpValues values{};
    FiberList<32> waiting;
    char sync = 0;
  };
  static constexpr unsigned max_exchanges = 33;  ///< one per lane may be open, and one be left
  struct Warp {
    Exchange exchanges[max_exchanges];
    std::uint64_t in_use = 0;  ///< a bit per exchange
    unsigned returned = 0;     ///< lanes whose kernel has returned
    unsigned lanes = 0;
  };

  static void entry();
  void run_threads();
  void thread_returned();
  void settle_barrier();
  void settle_exchange(Warp& warp, Exchange& exchange);
  static unsigned find_exchange(Warp& warp, unsigned mask, unsigned lane_bit);
  void wait();
  Fiber* new_fiber();
  void start_block(KernelLaunch& launch, uint3 block_index);
  [[noreturn]] void report_deadlock() const;
  void release(void* where) const;
  void acquire(void* where) const;

  const bool race_check_;
  KernelLaunch* launch_ = nullptr;
  unsigned threads_ = 0;
  unsigned next_ = 0;  ///< the first thread that has not started
  unsigned returned_ = 0;
  unsigned at_barrier_ = 0;
  unsigned barriers_ = 0;  ///< how many have been passed
  unsigned votes_[2] = {};
  char barrier_sync_[2] = {};
  char end_sync_ = 0;
  Fiber main_;
  Fiber* running_ = nullptr;
  FiberList<max_block_threads> ready_;
  FiberList<max_block_threads> waiting_at_barrier_;
  FiberList<max_block_threads> idle_;
  FiberList<max_block_threads> spent_;
  Warp warps_[max_block_threads / 32];
};

}  // namespace cuda_emulation
