// A clock that makes one step after the other.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace zero1::viz {

/// Calls `step` so many times per second on a thread of its own while a rate is set; a step that comes late
/// is not made up for. `step` returns false to set the rate to 0.
class SlowMotion {
 public:
  explicit SlowMotion(std::function<bool()> step);
  SlowMotion(const SlowMotion&) = delete;
  SlowMotion& operator=(const SlowMotion&) = delete;
  ~SlowMotion();

  /// Any thread. Whether a step under way still ends is not known to whoever sets 0.
  void set_rate(double steps_per_second);
  double rate() const;

 private:
  void run();

  std::function<bool()> step_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  double rate_ = 0;
  std::uint64_t revision_ = 0;  ///< of the rate
  bool stop_ = false;
  std::thread thread_;  ///< last: starts when all else is ready
};

}  // namespace zero1::viz
