// Turns the ranks' finished iterations into StepMetrics, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "core/trace/overlap.h"
#include "core/trace/recorder.h"
#include "core/train/metrics.h"

namespace zero1 {

/// Collects what every rank says of an iteration; the last rank to finish it reports. Times come from
/// the trace when there is one. Thread-safe; reports are made under the lock, one after another.
class StepReporter {
 public:
  StepReporter(int ranks, std::function<void(const StepMetrics&)> on_step);

  /// The recorder whose events give the times; null: none are known but `ms`.
  void attach(trace::Recorder* recorder) { recorder_ = recorder; }

  /// The recorder's sink.
  void add_events(std::span<const trace::Event> events);

  /// A rank has finished an iteration, and its `step` event has been recorded.
  void step_done(StepMetrics metrics);

  /// What the run's summary says of time: means over the steps but the first.
  void summarize(TrainSummary& summary);

 private:
  void report(StepMetrics metrics);

  int ranks_;
  std::function<void(const StepMetrics&)> on_step_;
  trace::Recorder* recorder_ = nullptr;

  std::mutex events_mutex_;  ///< the sink is called by whoever drains
  trace::StepAccumulator accumulator_;

  std::mutex mutex_;
  std::map<std::int64_t, int> finished_;  ///< ranks by step
  struct Totals {
    std::int64_t steps = 0;
    double ms = 0, comm_ms = 0, exposed_comm_ms = 0, overlapped_ms = 0, tokens = 0;
  };
  Totals first_;
  Totals later_;
  StepMetrics last_;
};

}  // namespace zero1
