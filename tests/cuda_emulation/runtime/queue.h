// A stream's queue and the OS thread that works it off.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "cuda_emulation/launch.h"
#include "runtime/tsan.h"

namespace cuda_emulation {

using Clock = std::chrono::steady_clock;

/// Operations run in order, each on the queue's thread. The thread lives until `close` and the last
/// operation; whoever holds a Ref may still wait for what has been submitted.
class Queue {
 public:
  /// Blocking streams and their device's default stream run in the order of submission.
  enum class Kind { non_blocking, blocking, default_stream };

  /// `number`: which one it is of its device.
  Queue(int device, std::uint64_t number, int priority, Kind kind)
      : device_(device), number_(number), priority_(priority), kind_(kind) {}

  /// Starts the queue's thread.
  static Ref<Queue> open(int device, std::uint64_t number, int priority, Kind kind);
  void close();

  /// Takes ownership. Returns the operation's number, counted from 1.
  std::uint64_t submit(Operation* operation);

  std::uint64_t submitted() const;
  bool finished(std::uint64_t number);

  /// Lets a lagging queue run up to `number` at once. Asking `finished` or waiting does so too; under random
  /// delays only waiting does, as on a GPU.
  void demand(std::uint64_t number);

  /// Blocks until operation `number` is done; orders the caller after the queue's work.
  void wait(std::uint64_t number);

  /// Blocks without ordering anything: for freeing memory.
  void wait_quietly(std::uint64_t number);

  int device() const { return device_; }
  int priority() const { return priority_; }
  bool blocking() const { return kind_ == Kind::blocking; }
  bool is_default() const { return kind_ == Kind::default_stream; }

 private:
  struct Entry {
    Operation* operation;
    Clock::time_point submitted;
  };

  void work();
  Operation* next();
  void done(Operation* operation);
  bool lags() const;

  const int device_;
  const std::uint64_t number_;
  const int priority_;
  const Kind kind_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::uint64_t submitted_ = 0;
  std::uint64_t finished_ = 0;
  std::atomic<std::uint64_t> demanded_{0};
  bool closed_ = false;
  char work_done_ = 0;  ///< released to TSan after every operation
};

template <class Function>
class FunctionOperation final : public Operation {
 public:
  explicit FunctionOperation(Function function) : function_(std::move(function)) {}
  void run() override { function_(); }

 private:
  Function function_;
};

template <class Function>
std::uint64_t submit_function(Queue& queue, Function function) {
  FunctionOperation<Function>* operation = nullptr;
  {
    const Quiet quiet;
    operation = new FunctionOperation<Function>(std::move(function));
  }
  return queue.submit(operation);
}

}  // namespace cuda_emulation
