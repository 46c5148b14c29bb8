// Memory for spans that have begun and not ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/trace/event.h"

namespace zero1::trace {

class Gate;
class Lane;
class Probe;

/// What the callbacks of a span's begin and end share. A stream runs the two in order, so the end is
/// the last user and gives the slot back.
struct PendingSpan {
  Event event;
  Gate* gate = nullptr;
  Lane* lane = nullptr;
  Probe* probe = nullptr;
  std::int64_t start_ns = 0;  ///< the recorder's
  std::atomic<bool> in_use{false};

  /// Any thread.
  void release() noexcept { in_use.store(false, std::memory_order_release); }
};

/// Slots for a lane's open spans: callbacks carry one plain pointer, which std::function stores without the
/// heap. `acquire` belongs to the host thread of the rank. A slot whose callbacks never run (a failed stream
/// skips them) stays out until the pool goes, and nothing leaks.
class PendingPool {
 public:
  /// The first free slot in turn; all in use: there become twice as many. Spans end about in the order in
  /// which they begin, so the next slot in turn is the likeliest to be free.
  PendingSpan* acquire() {
    for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
      PendingSpan* slot = slots_[next_];
      if (++next_ == slots_.size()) next_ = 0;
      if (slot->in_use.load(std::memory_order_acquire)) continue;
      slot->in_use.store(true, std::memory_order_relaxed);
      return slot;
    }
    return grow();
  }

 private:
  static constexpr std::size_t first_block = 64;

  PendingSpan* grow() {
    const std::size_t count = slots_.empty() ? first_block : slots_.size();
    blocks_.push_back(std::make_unique<PendingSpan[]>(count));
    next_ = slots_.size();
    for (std::size_t i = 0; i < count; ++i) slots_.push_back(&blocks_.back()[i]);
    return acquire();
  }

  std::vector<std::unique_ptr<PendingSpan[]>> blocks_;
  std::vector<PendingSpan*> slots_;
  std::size_t next_ = 0;
};

}  // namespace zero1::trace
