// Looks into a run's memory at the moments between which its events lie.
#pragma once

#include <cstdint>

#include "core/trace/event.h"

namespace zero1::trace {

/// Called as every event passes, on the thread that runs the event's stream, in stream order and after the
/// gate has let it go: everything that this stream was given before has been done, and nothing of what
/// follows. What the other stream of the rank writes meanwhile must be left alone: between `ready` and
/// `reduced` of a bucket its gradients belong to the communication stream, between a gather's issue and the
/// end of its wait its parameters do. `event` has the times known so far, relative to the recorder's start.
///
/// It must not throw, wait for the run, or change what it sees. On a CUDA stream the calls come later, from
/// the device's resolver, and say nothing about the memory. Without a recorder it is not called.
class Probe {
 public:
  enum class At : std::uint8_t { begin, end, instant };

  virtual ~Probe() = default;
  virtual void passed(const Event& event, At at) noexcept = 0;
};

}  // namespace zero1::trace
