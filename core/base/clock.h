// The one clock of a run.
#pragma once

#include <chrono>
#include <cstdint>

namespace zero1 {

/// Nanoseconds on the host's monotonic clock, comparable between the threads of one machine.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace zero1
