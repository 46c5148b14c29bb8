// Memory for spans that have begun and not ended.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/trace/event.h"

namespace zero1::trace {

class Gate;
class Lane;

/// What the callbacks of a span's begin and end share. A stream runs the two in order, so the end is
/// the last user and gives the slot back.
struct PendingSpan {
  Event event;
  Gate* gate = nullptr;
  Lane* lane = nullptr;
  std::int64_t start_ns = 0;  ///< the recorder's
  PendingSpan* next = nullptr;
};

/// A free list of spans: callbacks carry one plain pointer, which std::function stores without the heap.
/// `acquire` belongs to the host thread of the rank, `release` to any thread. A slot whose callbacks
/// never run (a failed stream skips them) stays out until the pool goes, and nothing leaks.
class PendingPool {
 public:
  PendingSpan* acquire() {
    if (mine_ == nullptr) mine_ = returned_.exchange(nullptr, std::memory_order_acquire);
    if (mine_ == nullptr) add_block();
    PendingSpan* span = mine_;
    mine_ = span->next;
    return span;
  }

  void release(PendingSpan* span) noexcept {
    span->next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(span->next, span, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

 private:
  using Block = std::array<PendingSpan, 64>;

  void add_block() {
    blocks_.push_back(std::make_unique<Block>());
    for (PendingSpan& span : *blocks_.back()) {
      span.next = mine_;
      mine_ = &span;
    }
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  PendingSpan* mine_ = nullptr;                  ///< free slots only the host thread sees
  std::atomic<PendingSpan*> returned_{nullptr};  ///< taken as a whole, so that no ABA can happen
};

}  // namespace zero1::trace
