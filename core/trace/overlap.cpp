#include "core/trace/overlap.h"

#include <algorithm>
#include <utility>

#include "core/base/units.h"

namespace zero1::trace {

IntervalSet merged(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end_ns <= i.start_ns; });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
  IntervalSet set;
  for (const Interval& interval : intervals) {
    if (!set.empty() && interval.start_ns <= set.back().end_ns) {
      set.back().end_ns = std::max(set.back().end_ns, interval.end_ns);
    } else {
      set.push_back(interval);
    }
  }
  return set;
}

std::int64_t length_ns(const IntervalSet& set) {
  std::int64_t total = 0;
  for (const Interval& interval : set) total += interval.end_ns - interval.start_ns;
  return total;
}

IntervalSet subtract(const IntervalSet& from, const IntervalSet& without) {
  IntervalSet rest;
  auto hole = without.begin();
  for (Interval interval : from) {
    while (hole != without.end() && hole->end_ns <= interval.start_ns) ++hole;
    // The last hole may reach into the next interval, so `hole` stays on it.
    for (auto next = hole; next != without.end() && next->start_ns < interval.end_ns; ++next) {
      if (interval.start_ns < next->start_ns) rest.push_back({interval.start_ns, next->start_ns});
      interval.start_ns = std::min(interval.end_ns, next->end_ns);
    }
    if (interval.start_ns < interval.end_ns) rest.push_back(interval);
  }
  return rest;
}

std::int64_t common_ns(const IntervalSet& small, const IntervalSet& large) {
  std::int64_t total = 0;
  for (const Interval& interval : small) {
    auto it =
        std::upper_bound(large.begin(), large.end(), interval.start_ns,
                         [](std::int64_t start, const Interval& other) { return start < other.end_ns; });
    for (; it != large.end() && it->start_ns < interval.end_ns; ++it) {
      total += std::min(interval.end_ns, it->end_ns) - std::max(interval.start_ns, it->start_ns);
    }
  }
  return total;
}

bool counts_as_compute(const Event& event) {
  if (event.stream != StreamId::compute) return false;
  switch (event.kind) {
    case Kind::forward:
    case Kind::backward:
    case Kind::scale_gradients:
    case Kind::check_gradients:
    case Kind::copy_grads:
    case Kind::grad_norm:
    case Kind::clip:
    case Kind::adamw:
    case Kind::copy_params:
    case Kind::zero_grads: return true;
    default: return false;
  }
}

std::int64_t CommFigures::total_bytes() const {
  std::int64_t total = 0;
  for (const std::int64_t of_kind : bytes) add_saturated(total, of_kind);
  return total;
}

CommFigures& CommFigures::operator+=(const CommFigures& other) {
  add_saturated(comm_ns, other.comm_ns);
  add_saturated(exposed_ns, other.exposed_ns);
  add_saturated(overlapped_ns, other.overlapped_ns);
  runs += other.runs;
  for (std::size_t i = 0; i < bytes.size(); ++i) add_saturated(bytes[i], other.bytes[i]);
  return *this;
}

StepFigures summarize(int step, std::span<const RankStep> ranks) {
  StepFigures figures;
  figures.step = step;
  figures.ranks = static_cast<int>(ranks.size());
  int communicating = 0;
  for (const RankStep& rank : ranks) {
    const StepFigures::Values values{static_cast<double>(rank.step_ns) / 1e6,
                                     static_cast<double>(rank.comm.comm_ns) / 1e6,
                                     static_cast<double>(rank.comm.exposed_ns) / 1e6, rank.comm.overlap()};
    figures.mean.ms += values.ms / figures.ranks;
    figures.mean.comm_ms += values.comm_ms / figures.ranks;
    figures.mean.exposed_comm_ms += values.exposed_comm_ms / figures.ranks;
    figures.mean.overlap += values.overlap;
    if (rank.comm.comm_ns > 0) ++communicating;
    figures.max.ms = std::max(figures.max.ms, values.ms);
    figures.max.comm_ms = std::max(figures.max.comm_ms, values.comm_ms);
    figures.max.exposed_comm_ms = std::max(figures.max.exposed_comm_ms, values.exposed_comm_ms);
    figures.max.overlap = std::max(figures.max.overlap, values.overlap);
    for (std::size_t i = 0; i < figures.bytes.size(); ++i)
      add_saturated(figures.bytes[i], rank.comm.bytes[i]);
  }
  if (communicating > 0) figures.mean.overlap /= communicating;
  return figures;
}

void RankTimeline::add(const Event& event) {
  const Interval when{event.begin_ns, event.end_ns};
  const auto collective =
      event.detail < collective_count ? static_cast<Collective>(event.detail) : Collective::barrier;
  if (counts_as_compute(event)) compute.push_back(when);
  if (event.kind == Kind::backward) {
    auto [it, is_new] = backward_end_ns.try_emplace(event.step, event.end_ns);
    if (!is_new) it->second = std::max(it->second, event.end_ns);
  } else if (event.kind == Kind::collective_run) {
    runs.push_back({when, event.bytes, event.bucket, event.step, collective});
  } else if (event.kind == Kind::collective_wait && event.stream == StreamId::compute) {
    waits.push_back({when, event.bytes, event.bucket, event.step, collective});
  } else if (event.kind == Kind::step) {
    steps.push_back({when, event.step});
  }
}

namespace {

IntervalSet union_of(std::span<const RankTimeline::Span> spans) {
  std::vector<Interval> intervals;
  intervals.reserve(spans.size());
  for (const RankTimeline::Span& span : spans) intervals.push_back(span.when);
  return merged(std::move(intervals));
}

}  // namespace

IntervalSet RankTimeline::computes() const {
  return subtract(merged(compute), union_of(waits));
}

CommFigures measure(std::span<const RankTimeline::Span> runs, std::span<const RankTimeline::Span> waits,
                    const IntervalSet& computes) {
  CommFigures figures;
  const IntervalSet communication = union_of(runs);
  figures.comm_ns = length_ns(communication);
  figures.exposed_ns = length_ns(union_of(waits));
  figures.overlapped_ns = common_ns(communication, computes);
  figures.runs = static_cast<std::int64_t>(runs.size());
  for (const RankTimeline::Span& run : runs)
    add_saturated(figures.bytes[static_cast<std::size_t>(run.collective)], run.bytes);
  return figures;
}

}  // namespace zero1::trace
