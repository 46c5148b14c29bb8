// The pipeline's side of tracing: one object per rank, handed around with the rank's context.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/device/stream.h"
#include "core/trace/event.h"

namespace zero1::trace {

class Recorder;
class Lane;
class Gate;
class Probe;
struct PendingSpan;

/// Emits one rank's events. With neither recorder nor gate every call is a branch. The "current" step
/// and microbatch are filled into events that leave them at -1. Host calls come from the rank's thread;
/// what runs on the communication stream is stamped there. Recorder, gate and probe outlive the rank's
/// streams. Once the gate has been told to stop the run, `instant` and `span` throw Error.
///
/// An event travels through the lane of its stream field, and a lane is pushed by one thread at a time:
/// spans by the thread that runs their stream, instants by the rank's thread, so that an instant must not
/// claim the communication stream.
class Tracer {
 public:
  Tracer() = default;  ///< emits nothing
  Tracer(int rank, Recorder* recorder, Gate* gate, Probe* probe = nullptr);

  bool enabled() const { return recorder_ != nullptr || gate_ != nullptr; }
  /// Whether somebody may look into the run's memory between two events. Then every phase leaves there what
  /// it is described to leave; else it may save passes over memory whose traces are gone by the end of the
  /// step.
  bool watched() const { return gate_ != nullptr || probe_ != nullptr; }
  void set_step(std::int32_t step) { step_ = step; }
  void set_microbatch(std::int16_t microbatch) { microbatch_ = microbatch; }
  std::int32_t step() const { return step_; }

  /// An instant on the host, now: passes the gate, then is recorded.
  void instant(const Event& event) {
    if (enabled()) emit_instant(event);
  }

  /// A span on the host that another thread has measured with now_ns(); called on the rank's thread, later.
  void measured(const Event& event, std::int64_t begin_ns, std::int64_t end_ns) {
    if (recorder_ != nullptr) record_measured(event, begin_ns, end_ns);
  }

  /// Queues the begin of `event` on `stream` (passing the gate there) and gives it a handle; `end`
  /// queues its end on the same stream and records it. Both cost nothing when disabled. The event's
  /// stream field is set to the stream's kind. Spans of one stream end in reverse order of their begins.
  class Span {
   public:
    Span() = default;
    Span(Tracer& tracer, Stream& stream, const Event& event) {
      if (tracer.enabled()) begin(tracer, stream, event);
    }
    Span(Span&& other) noexcept;
    Span& operator=(Span&& other) noexcept;
    ~Span() { end(); }
    void end() {
      if (pending_ != nullptr) queue_end();
    }

   private:
    void begin(Tracer& tracer, Stream& stream, const Event& event);
    void queue_end();

    Stream* stream_ = nullptr;
    bool in_profiler_ = false;
    PendingSpan* pending_ = nullptr;  ///< owned by the lane's pool
  };

  [[nodiscard]] Span span(Stream& stream, const Event& event) { return Span(*this, stream, event); }

 private:
  void emit_instant(Event event);
  void record_measured(Event event, std::int64_t begin_ns, std::int64_t end_ns);
  void complete(Event& event) const;  ///< fills rank, step, microbatch where unset
  std::string title_of(const Event& event) const;

  int rank_ = 0;
  Recorder* recorder_ = nullptr;
  Gate* gate_ = nullptr;
  Probe* probe_ = nullptr;
  std::array<Lane*, 3> lanes_{};  ///< by StreamId
  std::int64_t start_ns_ = 0;     ///< the recorder's
  std::int32_t step_ = -1;
  std::int16_t microbatch_ = -1;
};

}  // namespace zero1::trace
