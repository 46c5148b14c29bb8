// Runs a launch: its blocks in turn on the stream's thread, or in race-check mode each on its own.
#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/block.h"
#include "runtime/errors.h"
#include "runtime/machine.h"

namespace cuda_emulation {
namespace {

constexpr unsigned char fresh_byte = 0xFF;  // NaNs: a GPU does not clear shared memory either

/// Of the exact size, so that AddressSanitizer sees overruns.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes), memory_(std::malloc(bytes)) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    dynamic_shared = nullptr;
    std::free(memory_);
  }
  void start_block() {
    if (bytes_ != 0) std::memset(memory_, fresh_byte, bytes_);
    dynamic_shared = memory_;
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

template <class Visit>
void for_each_block(dim3 grid, Visit visit) {
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) visit(uint3{x, y, z});
    }
  }
}

void run_in_turn(KernelLaunch& launch) {
  thread_local const std::unique_ptr<BlockRunner> runner = std::make_unique<BlockRunner>(false);
  SharedMemory shared(launch.shared_bytes());
  for_each_block(launch.grid(), [&](uint3 block) {
    shared.start_block();
    runner->run(launch, block);
  });
}

/// A thread that has run one block and is kept, unordered with the others, until all have run.
class BlockThread {
 public:
  BlockThread(KernelLaunch& launch, uint3 block) : thread_([this, &launch, block] { work(launch, block); }) {}
  void wait_quietly() {
    const Quiet quiet;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  void join() { thread_.join(); }

 private:
  void work(KernelLaunch& launch, uint3 block) {
    {
      SharedMemory shared(launch.shared_bytes());
      shared.start_block();
      const auto runner = std::make_unique<BlockRunner>(true);
      runner->run(launch, block);
    }
    const Quiet quiet;
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

/// Blocks still run one after another, but only the launch's begin and end order them; a thread's own
/// `static thread_local` variables are its block's shared memory.
void run_unordered(KernelLaunch& launch) {
  constexpr unsigned long most_blocks = 512;
  const dim3 grid = launch.grid();
  if (std::uint64_t{grid.x} * grid.y * grid.z > most_blocks) {
    fatal("race-check mode takes grids of up to " + std::to_string(most_blocks) + " blocks");
  }
  std::vector<std::unique_ptr<BlockThread>> threads;
  for_each_block(grid, [&](uint3 block) {
    threads.push_back(std::make_unique<BlockThread>(launch, block));
    threads.back()->wait_quietly();
  });
  for (const auto& thread : threads) thread->join();
}

}  // namespace

void KernelLaunch::run() {
  machine().race_check() ? run_unordered(*this) : run_in_turn(*this);
}

unsigned block_barrier(unsigned vote) {
  return BlockRunner::current().barrier(vote);
}
WarpValues warp_exchange(unsigned mask, std::uint64_t value) {
  return BlockRunner::current().exchange(mask, value);
}
void yield_thread() {
  BlockRunner::current().yield();
}

void thread_fence() {
  // Whoever passes a fence later sees what was written before an earlier one.
  static char fence = 0;
  acquired(&fence);
  released(&fence);
}

}  // namespace cuda_emulation
