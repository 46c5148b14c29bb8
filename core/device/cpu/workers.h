// The threads and the scratch memory with which one CPU stream runs an operation.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <vector>

namespace zero1::cpu {

/// Grow-only buffers of one worker thread. A slot's content is lost when the slot is asked for again.
class Scratch {
 public:
  static constexpr int slots = 8;

  template <class T>
  T* get(int slot, std::int64_t elems) {
    return static_cast<T*>(bytes(slot, static_cast<std::size_t>(elems) * sizeof(T)));
  }
  float* floats(int slot, std::int64_t elems) { return get<float>(slot, elems); }

 private:
  struct Free {
    void operator()(void* data) const { ::operator delete (data, std::align_val_t{alignment}); }
  };
  struct Buffer {
    std::unique_ptr<void, Free> data;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t alignment = 64;

  void* bytes(int slot, std::size_t wanted) {
    Buffer& buffer = buffers_[static_cast<std::size_t>(slot)];
    if (buffer.bytes < wanted || !buffer.data) {
      buffer.data.reset();
      buffer.bytes = 0;
      buffer.data.reset(::operator new (std::max(wanted, alignment), std::align_val_t{alignment}));
      buffer.bytes = wanted;
    }
    return buffer.data.get();
  }

  std::array<Buffer, slots> buffers_;
};

/// A stream's team. Used by the one thread that runs the stream. With one thread no parallel region is
/// ever entered, so that OpenMP's pool is never started.
class Workers {
 public:
  explicit Workers(int threads)
      : threads_(std::max(1, threads)), scratch_(static_cast<std::size_t>(threads_)) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return threads_; }

  /// The scratch of the thread that submits parallel work, for use outside of `for_each`.
  Scratch& scratch() { return shared_; }

  /// Calls fn(item, scratch) for every item in [0, items), each on one thread. Which thread runs an item
  /// is not fixed: results must not depend on it. The first exception is rethrown.
  template <class Fn>
  void for_each(std::int64_t items, Fn&& fn) {
    if (threads_ == 1 || items <= 1) {
      for (std::int64_t item = 0; item < items; ++item) fn(item, scratch_[0]);
      return;
    }
    std::exception_ptr error;
    std::atomic<bool> failed{false};
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 1)
    for (std::int64_t item = 0; item < items; ++item) {
      try {
        if (!failed.load(std::memory_order_relaxed)) {
          fn(item, scratch_[static_cast<std::size_t>(omp_get_thread_num())]);
        }
      } catch (...) {
        if (!failed.exchange(true)) error = std::current_exception();
      }
    }
    if (error) std::rethrow_exception(error);
  }

  /// Calls fn(begin, end) on pieces that tile [0, elems): one piece per thread, cut at multiples of 64,
  /// and a single one when there is too little to share. For loops whose results depend on no cut.
  template <class Fn>
  void split(std::int64_t elems, Fn&& fn) {
    const std::int64_t pieces = elems < min_shared_elems ? 1 : threads_;
    const std::int64_t piece = (elems / pieces + 63) / 64 * 64;
    for_each(pieces, [&](std::int64_t i, Scratch&) {
      const std::int64_t begin = std::min(elems, i * piece);
      const std::int64_t end = i + 1 == pieces ? elems : std::min(elems, begin + piece);
      if (begin < end) fn(begin, end);
    });
  }

 private:
  /// Below this, waking the other threads costs more than they help.
  static constexpr std::int64_t min_shared_elems = 32768;

  int threads_;
  std::vector<Scratch> scratch_;
  Scratch shared_;
};

}  // namespace zero1::cpu
