// Which part of time a timeline shows, and where on the screen it lies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/trace/intervals.h"

namespace zero1::viz {

/// A window of time over `width_px` pixels. Times are nanoseconds; doubles hold those of 100 days exactly.
class TimeView {
 public:
  static constexpr double least_span_ns = 20;

  double start_ns() const { return start_ns_; }
  double span_ns() const { return span_ns_; }
  double end_ns() const { return start_ns_ + span_ns_; }
  double width_px() const { return width_px_; }
  double ns_per_px() const { return span_ns_ / width_px_; }

  double x_of(double at_ns) const { return (at_ns - start_ns_) / ns_per_px(); }
  double ns_at(double x) const { return start_ns_ + x * ns_per_px(); }

  void set_width(double width_px) { width_px_ = std::max(1.0, width_px); }
  void show(double start_ns, double end_ns) {
    span_ns_ = std::max(least_span_ns, end_ns - start_ns);
    start_ns_ = start_ns;
  }
  /// The interval and a margin of 2% on each side.
  void fit(trace::Interval interval) {
    const auto start = static_cast<double>(interval.start_ns), end = static_cast<double>(interval.end_ns);
    const double margin = std::max((end - start) * 0.02, least_span_ns / 2);
    show(start - margin, end + margin);
  }
  /// What is at pixel `x` stays there; factor < 1 shows less time in more detail.
  void zoom_at(double x, double factor) {
    const double fixed_ns = ns_at(x);
    span_ns_ = std::clamp(span_ns_ * factor, least_span_ns, 1e20);
    start_ns_ = fixed_ns - x * ns_per_px();
  }
  void pan_px(double dx) { start_ns_ += dx * ns_per_px(); }
  void centre_on(double at_ns) { start_ns_ = at_ns - span_ns_ / 2; }

  /// Keeps a part of `all` in view, and no more than twenty times it.
  void clamp_to(trace::Interval all) {
    const auto start = static_cast<double>(all.start_ns), end = static_cast<double>(all.end_ns);
    span_ns_ = std::clamp(span_ns_, least_span_ns, std::max(20 * (end - start), 2 * least_span_ns));
    start_ns_ = std::clamp(start_ns_, start - 0.9 * span_ns_, std::max(start, end) - 0.1 * span_ns_);
  }

  /// Whole nanoseconds that hold the window.
  trace::Interval window() const { return {to_ns(std::floor(start_ns_)), to_ns(std::ceil(end_ns()))}; }

  /// Of a time that may lie outside what 64 bits hold.
  static std::int64_t to_ns(double at_ns) {
    constexpr double least = -9.2e18, most = 9.2e18;
    return at_ns <= least ? INT64_MIN : at_ns >= most ? INT64_MAX : static_cast<std::int64_t>(at_ns);
  }

 private:
  double start_ns_ = 0;
  double span_ns_ = 1e9;
  double width_px_ = 1000;
};

}  // namespace zero1::viz
