#include <algorithm>
#include <iterator>
#include <utility>

#include "core/trace/overlap.h"

namespace zero1::trace {

namespace {

using Span = RankTimeline::Span;

const RankTimeline::Step* find_step(const RankTimeline& timeline, int step) {
  const auto found = std::find_if(timeline.steps.begin(), timeline.steps.end(),
                                  [step](const RankTimeline::Step& s) { return s.step == step; });
  return found == timeline.steps.end() ? nullptr : &*found;
}

/// The spans that end in (after_ns, until_ns].
std::vector<Span> ending_in(const std::vector<Span>& spans, std::int64_t after_ns, std::int64_t until_ns) {
  std::vector<Span> result;
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(result),
               [=](const Span& span) { return after_ns < span.when.end_ns && span.when.end_ns <= until_ns; });
  return result;
}

/// Drops what belongs to the taken step. Its waits leave their mark as holes in the compute that is kept.
void forget_until(RankTimeline& timeline, const RankTimeline::Step& taken) {
  timeline.compute = timeline.computes();
  std::erase_if(timeline.compute, [&](const Interval& work) { return work.end_ns <= taken.when.start_ns; });
  const auto ended = [&](const auto& item) { return item.when.end_ns <= taken.when.end_ns; };
  std::erase_if(timeline.runs, ended);
  std::erase_if(timeline.waits, ended);
  std::erase_if(timeline.steps, ended);
  timeline.backward_end_ns.erase(timeline.backward_end_ns.begin(),
                                 timeline.backward_end_ns.upper_bound(taken.step));
}

}  // namespace

bool StepAccumulator::complete(int step) const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [step](const RankTimeline& timeline) { return find_step(timeline, step) != nullptr; });
}

void StepAccumulator::add(std::span<const Event> events) {
  for (const Event& event : events) ranks_.at(static_cast<std::size_t>(event.rank)).add(event);
}

StepFigures StepAccumulator::take(int step) {
  std::vector<RankStep> ranks;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    RankTimeline& timeline = ranks_[rank];
    const RankTimeline::Step* found = find_step(timeline, step);
    if (found == nullptr) continue;
    const RankTimeline::Step taken = *found;
    std::int64_t after_ns = INT64_MIN;  // the end of the step before, where that one was not taken
    for (const RankTimeline::Step& other : timeline.steps) {
      if (other.when.end_ns < taken.when.end_ns) after_ns = std::max(after_ns, other.when.end_ns);
    }
    const CommFigures comm =
        measure(ending_in(timeline.runs, after_ns, taken.when.end_ns),
                ending_in(timeline.waits, after_ns, taken.when.end_ns), timeline.computes());
    ranks.push_back({static_cast<int>(rank), step, taken.when.end_ns - taken.when.start_ns, comm});
    forget_until(timeline, taken);
  }
  return summarize(step, ranks);
}

}  // namespace zero1::trace
