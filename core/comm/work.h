// The handle of an issued collective.
#pragma once

#include <memory>

#include "core/device/stream.h"

namespace zero1 {

/// A collective that has been issued. Host completion and ordering a stream are two different things:
/// `wait` blocks the calling thread, `order` only makes a stream's later work start after the
/// collective. A default-made Work is complete. Copies share the collective.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<Event> done) : done_(std::move(done)) {}

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

 private:
  std::shared_ptr<Event> done_;
};

}  // namespace zero1
