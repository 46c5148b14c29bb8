// Streams that are late at random: CUDA promises nothing of when a stream gets to its work.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace cuda_emulation {

/// Decides by a seed which operations start late, and holds them while other streams go on: one in four, for
/// up to 16 operations of other streams. The decisions depend on the seed, the stream and the operation's
/// number alone. A held operation starts anyway when nothing else moves for a while.
class Delays {
 public:
  explicit Delays(std::uint64_t seed) : seed_(seed) {}

  void set_seed(std::uint64_t seed) { seed_.store(seed, std::memory_order_relaxed); }
  bool on() const { return seed_.load(std::memory_order_relaxed) != 0; }

  /// What to do with operation `number` of a stream: how many operations elsewhere it lets pass. 0: it is
  /// not held.
  unsigned turns(std::uint64_t stream, std::uint64_t number) const;

  /// Blocks until that many operations have ended, anywhere. `demanded` tells whether somebody waits for
  /// the operation: then patience is short.
  void hold(unsigned turns, const std::atomic<std::uint64_t>& demanded, std::uint64_t number);

  /// Every stream tells when it has ended an operation.
  void operation_ended();

 private:
  std::atomic<std::uint64_t> seed_;
  std::mutex mutex_;
  std::condition_variable ended_changed_;
  std::uint64_t ended_ = 0;
};

}  // namespace cuda_emulation
