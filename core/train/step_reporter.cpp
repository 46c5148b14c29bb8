#include "core/train/step_reporter.h"

#include <utility>

namespace zero1 {

StepReporter::StepReporter(int ranks, std::function<void(const StepMetrics&)> on_step)
    : ranks_(ranks), on_step_(std::move(on_step)), accumulator_(ranks) {}

void StepReporter::add_events(std::span<const trace::Event> events) {
  const std::lock_guard lock(events_mutex_);
  accumulator_.add(events);
}

void StepReporter::step_done(StepMetrics metrics) {
  const std::lock_guard lock(mutex_);
  if (++finished_[metrics.step] < ranks_) return;
  finished_.erase(metrics.step);
  report(metrics);
}

void StepReporter::report(StepMetrics metrics) {
  if (recorder_ != nullptr) {
    recorder_->drain();
    const std::lock_guard lock(events_mutex_);
    const trace::StepFigures figures = accumulator_.take(static_cast<int>(metrics.step));
    metrics.comm_ms = figures.mean.comm_ms;
    metrics.exposed_comm_ms = figures.mean.exposed_comm_ms;
    metrics.overlap = figures.mean.overlap;
  }
  Totals& totals = first_.steps == 0 ? first_ : later_;
  ++totals.steps;
  totals.ms += metrics.ms;
  totals.comm_ms += metrics.comm_ms;
  totals.exposed_comm_ms += metrics.exposed_comm_ms;
  totals.overlapped_ms += metrics.overlap * metrics.comm_ms;
  totals.tokens += static_cast<double>(metrics.tokens);
  last_ = metrics;
  if (on_step_) on_step_(metrics);
}

void StepReporter::summarize(TrainSummary& summary) {
  const std::lock_guard lock(mutex_);
  const Totals& totals = later_.steps > 0 ? later_ : first_;
  const auto steps = static_cast<double>(totals.steps);
  summary.steps = first_.steps + later_.steps;
  summary.skipped_steps = last_.skipped_steps;
  summary.last_loss = last_.loss;
  summary.ms_per_step = totals.ms / steps;
  summary.tokens_per_s = totals.tokens / totals.ms * 1e3;
  summary.comm_ms = totals.comm_ms / steps;
  summary.exposed_comm_ms = totals.exposed_comm_ms / steps;
  summary.overlap = totals.comm_ms > 0 ? totals.overlapped_ms / totals.comm_ms : 0;
}

}  // namespace zero1
