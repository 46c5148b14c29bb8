// The pipeline's side of tracing: one object per rank, handed around with the rank's context.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/stream.h"
#include "core/trace/event.h"

namespace zero1::trace {

class Recorder;
class Lane;
class Gate;

/// Emits one rank's events. With neither recorder nor gate every call is a branch. The "current" step
/// and microbatch are filled into events that leave them at -1. Host calls come from the rank's thread;
/// what runs on the communication stream is stamped there.
class Tracer {
 public:
  Tracer() = default;  ///< emits nothing
  Tracer(int rank, Recorder* recorder, Gate* gate);

  bool enabled() const { return recorder_ != nullptr || gate_ != nullptr; }
  void set_step(std::int32_t step) { step_ = step; }
  void set_microbatch(std::int16_t microbatch) { microbatch_ = microbatch; }
  std::int32_t step() const { return step_; }

  /// An instant on the host, now.
  void instant(Event event);

  /// Queues the begin of `event` on `stream` (passing the gate there) and gives it a handle; `end`
  /// queues its end on the same stream and records it. Both cost nothing when disabled.
  class Span {
   public:
    Span() = default;
    Span(Tracer& tracer, Stream& stream, Event event);
    Span(Span&& other) noexcept;
    Span& operator=(Span&& other) noexcept;
    ~Span() { end(); }
    void end();

   private:
    struct Pending;
    Tracer* tracer_ = nullptr;
    Stream* stream_ = nullptr;
    std::shared_ptr<Pending> pending_;
  };

  [[nodiscard]] Span span(Stream& stream, Event event) { return Span(*this, stream, event); }

 private:
  Event completed(Event event) const;  ///< fills rank, step, microbatch where unset

  int rank_ = 0;
  Recorder* recorder_ = nullptr;
  Gate* gate_ = nullptr;
  std::int32_t step_ = -1;
  std::int16_t microbatch_ = -1;
};

}  // namespace zero1::trace
