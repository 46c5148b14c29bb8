// The handle of an issued collective.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/device/stream.h"

namespace zero1 {

/// A collective that has been issued. Host completion and ordering a stream are two different things:
/// `wait` blocks the calling thread, `order` only makes a stream's later work start after the
/// collective. A default-made Work is complete. Copies share the collective.
class Work {
 public:
  Work() = default;
  /// `started`: what started_ns() reads; the backend stores it while the collective runs.
  explicit Work(std::shared_ptr<Event> done,
                std::shared_ptr<const std::atomic<std::int64_t>> started = nullptr)
      : done_(std::move(done)), started_(std::move(started)) {}

  bool valid() const { return done_ != nullptr; }
  bool completed() const { return done_ == nullptr || done_->reached(); }

  /// Blocks the host until the collective is done; throws what went wrong in it.
  void wait() const {
    if (done_) done_->synchronize();
  }

  /// Work submitted to `stream` from now on starts after the collective.
  void order(Stream& stream) const {
    if (done_) stream.wait(*done_);
  }

  /// When the last rank had arrived and data began to move, on the clock of now_ns(): the same number on
  /// every rank. 0 before that, and where a backend cannot tell. What lies before it is waiting for
  /// peers, what follows is the transfer.
  std::int64_t started_ns() const { return started_ ? started_->load(std::memory_order_acquire) : 0; }

  /// The same collective, but done only when `stream` (the one it was issued on) has also passed the work
  /// submitted to it since. Only whoever issued the collective, before handing out copies, may call it.
  Work extended(Stream& stream) const {
    if (done_) stream.record(*done_);
    return *this;
  }

  /// Reads like started_ns() from work on the stream that must not keep the event alive.
  std::shared_ptr<const std::atomic<std::int64_t>> started() const { return started_; }

 private:
  std::shared_ptr<Event> done_;
  std::shared_ptr<const std::atomic<std::int64_t>> started_;
};

}  // namespace zero1
