// In-order queues of device work, and the events that order them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace zero1 {

/// Which of a rank's two queues: model compute, or collectives running beside it.
enum class StreamKind : std::uint8_t { compute, communication };

std::string_view name(StreamKind kind);

/// A point in a stream that other streams or the host can wait for. Before its first `record` an
/// event counts as reached. Recording again moves it; waits already queued keep the old point.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  /// Has the stream passed the recorded point?
  virtual bool reached() const = 0;

  /// Blocks the host until the point is reached. Rethrows what the stream's work threw before it.
  virtual void synchronize() = 0;
};

/// An in-order queue. Work submitted to one stream runs in submission order; work on two streams is
/// ordered by events only. A stream is used by one host thread at a time. An exception in queued work
/// is kept; the stream skips what follows, and `synchronize` (its own or an event's) rethrows it.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  virtual StreamKind kind() const = 0;

  /// Sets `event` to the end of the work submitted so far.
  virtual void record(Event& event) = 0;

  /// Work submitted from now on starts after `event` is reached. An inline stream (the CPU's compute
  /// stream) blocks the calling thread for that.
  virtual void wait(Event& event) = 0;

  /// Blocks the host until everything submitted has run, and rethrows the first exception of it.
  virtual void synchronize() = 0;

  /// Calls `reached(now_ns)` when the stream gets here, in stream order and without synchronising
  /// anything. `now_ns` is on the clock of `now_ns()` in core/base/clock.h. The call comes from the
  /// thread that runs the stream, or later from the device's resolver; it must be quick and not throw.
  virtual void stamp(std::function<void(std::int64_t now_ns)> reached) = 0;

  /// Shows what is submitted between the two as a range of this title in the profiler of the device. Ranges
  /// of one stream nest. Without `has_profiler` they do nothing, and nobody need make a title.
  virtual bool has_profiler() const { return false; }
  virtual void begin_range(const char* title) { (void)title; }
  virtual void end_range() {}
};

}  // namespace zero1
