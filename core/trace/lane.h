// The way of one (rank, stream)'s events out of the pipeline: a single-producer ring without locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/pending.h"

namespace zero1::trace {

/// A bounded ring with one producer (the thread that runs the stream) and one consumer (whoever holds
/// the recorder's drain mutex). Wait-free on both sides. An event that finds the ring full is counted
/// and dropped: a run never waits for its trace.
class Lane {
 public:
  /// `capacity` is rounded up to a power of two, at least 2.
  explicit Lane(std::int64_t capacity)
      : capacity_(round_up(capacity)),
        mask_(capacity_ - 1),
        slots_(static_cast<Event*>(::operator new(capacity_ * sizeof(Event), slot_alignment))) {
    // The ring's pages are made now: in the producer's first lap they would double the cost of a push.
    std::memset(static_cast<void*>(slots_.get()), 0, capacity_ * sizeof(Event));
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Producer. `event`'s times are relative to the recorder's start.
  bool push(const Event& event) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - known_tail_ == capacity_) {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head - known_tail_ == capacity_) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return false;
      }
    }
    slots_.get()[head & mask_] = event;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  /// Consumer: the oldest events that lie side by side in the ring; empty when there is none.
  std::span<const Event> front() const {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint64_t count = head_.load(std::memory_order_acquire) - tail;
    const std::uint64_t to_end = capacity_ - (tail & mask_);
    return {slots_.get() + (tail & mask_), count < to_end ? count : to_end};
  }

  /// Consumer: gives the first `count` events' places back to the producer.
  void pop(std::size_t count) {
    tail_.store(tail_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

  std::int64_t capacity() const { return static_cast<std::int64_t>(capacity_); }

  /// Any thread; a snapshot.
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  bool more_than_quarter_full() const {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return head_.load(std::memory_order_relaxed) - tail > capacity_ / 4;
  }

  /// Where this lane's open spans live.
  PendingPool& pending() { return pending_; }

 private:
  static constexpr std::align_val_t slot_alignment{64};
  struct FreeSlots {
    void operator()(Event* slots) const { ::operator delete(slots, slot_alignment); }
  };
  static std::uint64_t round_up(std::int64_t capacity) {
    std::uint64_t power = 2;
    while (static_cast<std::int64_t>(power) < capacity) power *= 2;
    return power;
  }

  const std::uint64_t capacity_;
  const std::uint64_t mask_;
  std::unique_ptr<Event, FreeSlots> slots_;
  PendingPool pending_;
  // The producer's line and the consumer's line lie apart, so that neither slows the other down.
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t known_tail_ = 0;
  std::atomic<std::int64_t> dropped_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
};

}  // namespace zero1::trace
