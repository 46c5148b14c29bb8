// The analysis of a whole run: figures by run, rank, step and bucket.
#include <algorithm>
#include <utility>

#include "core/base/units.h"
#include "core/trace/overlap.h"

namespace zero1::trace {

namespace {

using Span = RankTimeline::Span;
using SpanRange = std::span<const Span>;

void sort_by_end(std::vector<Span>& spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& a, const Span& b) { return a.when.end_ns < b.when.end_ns; });
}

/// Takes the spans off the front of `rest` (sorted by end) that end by `end_ns`.
SpanRange take_until(SpanRange& rest, std::int64_t end_ns) {
  const auto end = std::upper_bound(rest.begin(), rest.end(), end_ns,
                                    [](std::int64_t ns, const Span& span) { return ns < span.when.end_ns; });
  const auto count = static_cast<std::size_t>(end - rest.begin());
  const SpanRange taken = rest.first(count);
  rest = rest.subspan(count);
  return taken;
}

/// Splits runs and waits by bucket, in order.
struct BucketSpans {
  std::vector<Span> runs, waits;
};

std::map<int, BucketSpans> by_bucket(SpanRange runs, SpanRange waits) {
  std::map<int, BucketSpans> buckets;
  for (const Span& run : runs) buckets[run.bucket].runs.push_back(run);
  for (const Span& wait : waits) buckets[wait.bucket].waits.push_back(wait);
  return buckets;
}

bool is_reduction(const Span& span) {
  return span.collective == Collective::reduce_scatter || span.collective == Collective::all_reduce;
}

bool is_gather(const Span& span) {
  return span.collective == Collective::all_gather;
}

CommFigures measure_if(const BucketSpans& spans, bool (*wanted)(const Span&), const IntervalSet& computes) {
  BucketSpans chosen;
  std::copy_if(spans.runs.begin(), spans.runs.end(), std::back_inserter(chosen.runs), wanted);
  std::copy_if(spans.waits.begin(), spans.waits.end(), std::back_inserter(chosen.waits), wanted);
  return measure(chosen.runs, chosen.waits, computes);
}

/// Adds one rank's share to the report.
class RankAnalysis {
 public:
  RankAnalysis(OverlapReport& report, std::map<int, StepReport>& steps, RankTimeline timeline, int rank)
      : report_(report), steps_(steps), timeline_(std::move(timeline)), rank_(rank) {
    sort_by_end(timeline_.runs);
    sort_by_end(timeline_.waits);
    std::sort(timeline_.steps.begin(), timeline_.steps.end(),
              [](const auto& a, const auto& b) { return a.when.end_ns < b.when.end_ns; });
    computes_ = timeline_.computes();
  }

  void run() {
    report_.ranks.push_back(measure(timeline_.runs, timeline_.waits, computes_));
    report_.run += report_.ranks.back();
    SpanRange runs = timeline_.runs;
    SpanRange waits = timeline_.waits;
    for (const RankTimeline::Step& step : timeline_.steps) {
      add_step(step, take_until(runs, step.when.end_ns), take_until(waits, step.when.end_ns));
    }
    add_buckets(runs, waits);
    add_leads();
  }

 private:
  void add_step(const RankTimeline::Step& step, SpanRange runs, SpanRange waits) {
    StepReport& report = steps_[step.step];
    report.ranks.push_back(
        {rank_, step.step, step.when.end_ns - step.when.start_ns, measure(runs, waits, computes_)});
    for (const auto& [bucket, figures] : add_buckets(runs, waits)) report.buckets[bucket] += figures;
  }

  /// Adds to the run's figures by bucket, and returns those of these runs and waits alone.
  std::map<int, CommFigures> add_buckets(SpanRange runs, SpanRange waits) {
    std::map<int, CommFigures> added;
    for (const auto& [bucket, spans] : by_bucket(runs, waits)) {
      BucketFigures& figures = report_.buckets[bucket];
      const CommFigures all = measure(spans.runs, spans.waits, computes_);
      figures.all += all;
      figures.reduce += measure_if(spans, is_reduction, computes_);
      figures.gather += measure_if(spans, is_gather, computes_);
      added[bucket] = all;
    }
    return added;
  }

  void add_leads() {
    for (const Span& run : timeline_.runs) {
      const auto backward = timeline_.backward_end_ns.find(run.step);
      if (!is_reduction(run) || run.bucket < 0 || backward == timeline_.backward_end_ns.end()) continue;
      BucketFigures& figures = report_.buckets[run.bucket];
      const std::int64_t lead_ns = backward->second - run.when.start_ns;
      figures.lead_ns_min = figures.lead_count == 0 ? lead_ns : std::min(figures.lead_ns_min, lead_ns);
      add_saturated(figures.lead_ns_sum, lead_ns);
      ++figures.lead_count;
    }
  }

  OverlapReport& report_;
  std::map<int, StepReport>& steps_;
  RankTimeline timeline_;
  int rank_;
  IntervalSet computes_;
};

}  // namespace

void OverlapAnalysis::add(std::span<const Event> events) {
  for (const Event& event : events) ranks_.at(static_cast<std::size_t>(event.rank)).add(event);
}

OverlapReport OverlapAnalysis::report() const {
  OverlapReport report;
  std::map<int, StepReport> steps;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    RankAnalysis(report, steps, ranks_[rank], static_cast<int>(rank)).run();
  }
  for (auto& [number, step] : steps) {
    step.figures = summarize(number, step.ranks);
    report.steps.push_back(std::move(step));
  }
  return report;
}

OverlapReport analyze_overlap(std::span<const Event> events, int ranks) {
  OverlapAnalysis analysis(ranks);
  analysis.add(events);
  return analysis.report();
}

}  // namespace zero1::trace
