#include "viz/model/slow_motion.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace zero1::viz {

SlowMotion::SlowMotion(std::function<bool()> step) : step_(std::move(step)), thread_([this] { run(); }) {}

SlowMotion::~SlowMotion() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SlowMotion::set_rate(double steps_per_second) {
  {
    const std::lock_guard lock(mutex_);
    rate_ = std::max(0.0, steps_per_second);
    ++revision_;
  }
  changed_.notify_all();
}

double SlowMotion::rate() const {
  const std::lock_guard lock(mutex_);
  return rate_;
}

void SlowMotion::run() {
  std::unique_lock lock(mutex_);
  std::chrono::steady_clock::time_point next = std::chrono::steady_clock::now();
  std::uint64_t seen = 0;
  while (!stop_) {
    if (rate_ <= 0) {
      changed_.wait(lock, [this] { return stop_ || rate_ > 0; });
      continue;
    }
    if (seen != revision_) {  // a new rate begins now
      seen = revision_;
      next = std::chrono::steady_clock::now();
    } else if (changed_.wait_until(lock, next, [&] { return stop_ || seen != revision_; })) {
      continue;
    }
    lock.unlock();
    const bool goes_on = step_();
    lock.lock();
    if (seen != revision_) continue;  // set meanwhile
    if (!goes_on) rate_ = 0;
    const auto period = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(1 / std::max(rate_, 1e-3)));
    next = std::max(next + period, std::chrono::steady_clock::now());
  }
}

}  // namespace zero1::viz
