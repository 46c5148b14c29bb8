// Maps the times of one GPU's events to the host's clock.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace zero1::cuda {

/// CUDA tells the time between two events only. So an anchor event is recorded on a stream of its own
/// and caught between two readings of the host's clock: an event's host time is the anchor's plus the
/// time between them, within half the width of the catch, the event's resolution and the clocks' drift
/// since. Anchors are renewed ten times a second while there are times to tell; the bound that `error_ns`
/// gives allows for one that was missed, and grows when a busy GPU makes the clock miss more. Used by one
/// thread, except `error_ns`.
class GpuClock {
 public:
  /// Takes the first anchor. The GPU must be current, here and in later calls.
  GpuClock();
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;
  ~GpuClock();

  /// Host time of a timing event that has been reached.
  std::int64_t host_ns(cudaEvent_t event) const;

  /// Takes a new anchor when the last is old, if it is caught more narrowly than the last is known by now
  /// (a busy GPU delays the catch, and then the old one is better). Waits for nothing but its own event.
  void refresh();

  std::int64_t error_ns() const { return error_ns_.load(); }

 private:
  struct Anchor {
    cudaEvent_t event = nullptr;
    std::int64_t host_ns = 0;
    std::int64_t error_ns = 0;
  };

  bool take(Anchor& anchor, std::int64_t give_up_ns) const;
  static std::int64_t bound(const Anchor& anchor, std::int64_t age_ns);

  cudaStream_t stream_ = nullptr;
  Anchor anchor_, spare_;
  std::atomic<std::int64_t> error_ns_{0};
};

}  // namespace zero1::cuda
