// Turns points of CUDA streams into times on the host's clock, off the critical path.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/device/cuda/gpu_clock.h"

namespace zero1::cuda {

/// A thread per device that watches timing events. `stamp` only takes an event from a pool and records
/// it; nothing ever waits on the GPU for a stamp.
///
/// A time is the GPU's, moved to the host's clock; it is never earlier than the call of `stamp`, never
/// later than the moment at which the event was seen to have happened, and never earlier than the
/// stream's time before it: those bounds hold whatever the clocks' error.
class StampResolver {
 public:
  using Reached = std::function<void(std::int64_t now_ns)>;
  class Line;  ///< one stream's stamps

  explicit StampResolver(int ordinal);  ///< of the current GPU
  StampResolver(const StampResolver&) = delete;
  StampResolver& operator=(const StampResolver&) = delete;
  ~StampResolver();

  std::shared_ptr<Line> add_line();
  /// The line's stamps must have been resolved.
  void remove_line(const std::shared_ptr<Line>& line);

  /// Records a point of `stream`; `reached` is called with its time, in the order of the line's stamps.
  void stamp(Line& line, cudaStream_t stream, Reached reached);

  /// Resolves what the line's stream has passed; to be called after synchronising it.
  void resolve(Line& line);

  /// How far a stamp may be from the host's clock.
  std::int64_t error_ns() const { return clock_.error_ns(); }

 private:
  void run();
  bool resolve_passed(Line& line);
  cudaEvent_t take_event();

  int ordinal_;
  GpuClock clock_;

  std::mutex queue_mutex_;  ///< lines, their queues and the pool: held for moments only
  std::condition_variable work_changed_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::vector<cudaEvent_t> pool_;
  std::int64_t pending_ = 0;
  bool closing_ = false;

  std::mutex resolve_mutex_;  ///< callbacks run one at a time, in order
  std::thread thread_;        ///< last: starts when all else is ready
};

}  // namespace zero1::cuda
