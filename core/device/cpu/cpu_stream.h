// The CPU's two streams and its event.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/device/cpu/cpu_device.h"
#include "core/device/cpu/workers.h"
#include "core/device/stream.h"

namespace zero1::cpu {

/// What stopped a stream. `seen` once somebody has been given it.
struct StreamError {
  std::exception_ptr exception;
  std::atomic<bool> seen{false};
};

/// One recorded point of a stream: passed once, with the error (or null) that the stream had by then.
class Point {
 public:
  void pass(std::shared_ptr<StreamError> error);
  bool passed() const;
  /// Blocks until passed; rethrows the stream's error.
  void wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable passed_changed_;
  bool passed_ = false;
  std::shared_ptr<StreamError> error_;
};

/// Holds the point of its last record. Waits copy the point, so that recording again does not move them.
class CpuEvent final : public Event {
 public:
  bool reached() const override;
  void synchronize() override;

  void set(std::shared_ptr<Point> point);
  std::shared_ptr<Point> point() const;  ///< null before the first record

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Point> point_;
};

/// What the operations need of either stream.
class StreamBase : public CpuStream {
 public:
  StreamBase(StreamKind kind, int threads) : kind_(kind), workers_(threads) {}
  StreamKind kind() const final { return kind_; }

  /// To be used by submitted work only.
  Workers& workers() { return workers_; }

 private:
  StreamKind kind_;
  Workers workers_;
};

/// Runs work on the calling thread; what it throws comes out of the call that submitted it, and the
/// stream stays usable.
class InlineStream final : public StreamBase {
 public:
  explicit InlineStream(int threads) : StreamBase(StreamKind::compute, threads) {}

  void submit(std::function<void()> work) override { work(); }
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override {}
  void stamp(std::function<void(std::int64_t)> reached) override;
};

/// Runs work on a thread of its own. The first exception is kept for good: what follows it is skipped,
/// but points are still passed, so that nobody waits for a failed stream forever.
class WorkerStream final : public StreamBase {
 public:
  WorkerStream();
  ~WorkerStream() override;  ///< drains; an error that nobody has seen is logged

  void submit(std::function<void()> work) override;
  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  void stamp(std::function<void(std::int64_t)> reached) override;

 private:
  /// One entry of the queue: work to run, or a point to pass.
  struct Item {
    std::function<void()> work;
    std::shared_ptr<Point> point;
  };

  void push(Item item);
  void run();
  void run_item(Item& item);

  std::mutex mutex_;
  std::condition_variable queue_changed_;
  std::deque<Item> queue_;
  bool closing_ = false;
  std::shared_ptr<StreamError> error_;  ///< the worker's; others see it through points
  std::thread thread_;                  ///< last: starts when all else is ready
};

/// The stream as one of ours; std::invalid_argument when it belongs to another kind of device.
StreamBase& cpu_stream(Stream& stream);
CpuEvent& cpu_event(Event& event);

}  // namespace zero1::cpu
