// Compiled without TSan, like the switching; in race-check mode it tells TSan of barriers and shuffles
// itself.
#include "runtime/block.h"

#include <bit>
#include <string>

#include "runtime/errors.h"

#ifdef ZERO1_EMULATION_TELLS_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_emulation {
namespace {

thread_local BlockRunner* current_runner = nullptr;

}  // namespace

void BlockRunner::release([[maybe_unused]] void* where) const {
#ifdef ZERO1_EMULATION_TELLS_TSAN
  if (race_check_) __tsan_release(where);
#endif
}

void BlockRunner::acquire([[maybe_unused]] void* where) const {
#ifdef ZERO1_EMULATION_TELLS_TSAN
  if (race_check_) __tsan_acquire(where);
#endif
}

BlockRunner& BlockRunner::current() {
  if (current_runner == nullptr) fatal("a barrier or shuffle outside of a kernel");
  return *current_runner;
}

BlockRunner::~BlockRunner() {
  while (!idle_.empty()) delete idle_.pop();
  while (!spent_.empty()) delete spent_.pop();
}

void BlockRunner::start_block(KernelLaunch& launch, uint3 block_index) {
  launch_ = &launch;
  blockDim = launch.block();
  gridDim = launch.grid();
  blockIdx = block_index;
  threads_ = blockDim.x * blockDim.y * blockDim.z;
  next_ = returned_ = at_barrier_ = barriers_ = 0;
  votes_[0] = votes_[1] = 0;
  for (unsigned first = 0; first < threads_; first += 32) {
    Warp& warp = warps_[first / 32];
    const unsigned lanes = threads_ - first;
    warp.lanes = lanes >= 32 ? 0xFFFFFFFFu : (1u << lanes) - 1;
    warp.returned = 0;
  }
  while (!spent_.empty()) idle_.push(spent_.pop());
}

void BlockRunner::run(KernelLaunch& launch, uint3 block_index) {
  BlockRunner* const outer = current_runner;
  current_runner = this;
  start_block(launch, block_index);
  running_ = &main_;
  if (race_check_) {
    // All of them before the first runs: a thread must not seem to be created by another of its block.
    main_.adopt_current_tsan_thread();
    for (unsigned i = 0; i < threads_; ++i) {
      Fiber* const fiber = new_fiber();
      fiber->become_tsan_thread();
      ready_.push(fiber);
    }
  }
  wait();
  if (returned_ < threads_) report_deadlock();
  acquire(&end_sync_);
  if (race_check_) {
    for (unsigned i = 0; i < threads_; ++i) {
      Fiber* const fiber = spent_.pop();
      fiber->end_tsan_thread();
      spent_.push(fiber);
    }
  }
  current_runner = outer;
}

Fiber* BlockRunner::new_fiber() {
  return idle_.empty() ? new Fiber(&entry) : idle_.pop();
}

/// Leaves the running fiber for one that can go on, else for a thread that has not started, else for run().
void BlockRunner::wait() {
  Fiber* const from = running_;
  if (!ready_.empty()) {
    running_ = ready_.pop();
  } else if (next_ < threads_) {
    running_ = new_fiber();
  } else {
    running_ = &main_;
  }
  if (running_ != from) Fiber::switch_to(*from, *running_);
}

void BlockRunner::entry() {
  Fiber::entered(current_runner->main_);
  for (;;) {
    BlockRunner& runner = *current_runner;
    runner.run_threads();
    // Not reused inside this block: its threads stay distinct.
    runner.spent_.push(runner.running_);
    runner.wait();
  }
}

void BlockRunner::run_threads() {
  do {
    const unsigned i = next_++;
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    launch_->run_thread();
    thread_returned();
  } while (!race_check_ && next_ < threads_);
  release(&end_sync_);
}

void BlockRunner::thread_returned() {
  ++returned_;
  settle_barrier();
  const unsigned i = thread_in_block();
  Warp& warp = warps_[i / 32];
  warp.returned |= 1u << (i % 32);
  for (std::uint64_t rest = warp.in_use; rest != 0; rest &= rest - 1) {
    Exchange& exchange = warp.exchanges[std::countr_zero(rest)];
    if (!exchange.done) settle_exchange(warp, exchange);
  }
}

void BlockRunner::settle_barrier() {
  if (at_barrier_ == 0 || at_barrier_ < threads_ - returned_) return;
  at_barrier_ = 0;
  ++barriers_;
  votes_[barriers_ % 2] = 0;
  while (!waiting_at_barrier_.empty()) ready_.push(waiting_at_barrier_.pop());
}

unsigned BlockRunner::barrier(unsigned vote) {
  // Two places in turn: who is slow to leave must not be ordered after what the quick do behind the barrier.
  const unsigned place = barriers_ % 2;
  release(&barrier_sync_[place]);
  votes_[place] += vote;
  ++at_barrier_;
  waiting_at_barrier_.push(running_);
  settle_barrier();
  wait();
  acquire(&barrier_sync_[place]);
  return votes_[place];
}

void BlockRunner::settle_exchange(Warp& warp, Exchange& exchange) {
  const unsigned needed = exchange.mask & warp.lanes & ~warp.returned;
  if ((exchange.present & needed) != needed) return;
  exchange.done = true;
  exchange.values.arrived = exchange.present;
  while (!exchange.waiting.empty()) ready_.push(exchange.waiting.pop());
}

WarpValues BlockRunner::exchange(unsigned mask, std::uint64_t value) {
  const unsigned i = thread_in_block();
  const unsigned bit = 1u << (i % 32);
  Warp& warp = warps_[i / 32];
  if ((mask & bit) == 0) fatal("a thread calls a warp function with a mask that does not name its own lane");
  const unsigned slot = find_exchange(warp, mask, bit);
  Exchange& mine = warp.exchanges[slot];
  mine.present |= bit;
  mine.values.value[i % 32] = value;
  release(&mine.sync);
  mine.waiting.push(running_);
  settle_exchange(warp, mine);
  wait();
  acquire(&mine.sync);
  const WarpValues values = mine.values;
  mine.left |= bit;
  if (mine.left == mine.present) warp.in_use &= ~(std::uint64_t{1} << slot);
  return values;
}

unsigned BlockRunner::find_exchange(Warp& warp, unsigned mask, unsigned lane_bit) {
  for (std::uint64_t rest = warp.in_use; rest != 0; rest &= rest - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(rest));
    const Exchange& open = warp.exchanges[slot];
    if (open.mask == mask && !open.done && (open.present & lane_bit) == 0) return slot;
  }
  const auto slot = static_cast<unsigned>(std::countr_one(warp.in_use));
  if (slot >= max_exchanges) fatal("more warp functions at once than a warp has lanes");
  warp.in_use |= std::uint64_t{1} << slot;
  Exchange& fresh = warp.exchanges[slot];
  fresh.mask = mask;
  fresh.present = fresh.left = 0;
  fresh.done = false;
  return slot;
}

void BlockRunner::yield() {
  ready_.push(running_);
  wait();
}

void BlockRunner::report_deadlock() const {
  std::string where;
  for (unsigned w = 0; w * 32 < threads_; ++w) {
    for (std::uint64_t rest = warps_[w].in_use; rest != 0; rest &= rest - 1) {
      const Exchange& exchange = warps_[w].exchanges[std::countr_zero(rest)];
      where += "; warp " + std::to_string(w) + ": " + std::to_string(std::popcount(exchange.present)) +
               " of the " + std::to_string(std::popcount(exchange.mask)) +
               " lanes of a mask in a warp function";
    }
  }
  fatal("a block never ends: of " + std::to_string(threads_) + " threads " + std::to_string(returned_) +
        " returned, " + std::to_string(at_barrier_) + " wait at __syncthreads" + where);
}

}  // namespace cuda_emulation
