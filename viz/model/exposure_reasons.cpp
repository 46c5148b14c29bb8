#include "viz/model/exposure_reasons.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/trace/recorder.h"
#include "viz/model/event_index.h"
#include "viz/model/run_settings.h"

namespace zero1::viz {

namespace {

using trace::Collective;
using trace::Event;
using trace::Interval;
using trace::Kind;

/// Rank, bucket, collective: of which one may be outstanding at a time.
using Key = std::tuple<int, int, int>;

Key key_of(const Event& event) {
  return {event.rank, event.bucket, event.detail};
}

std::int64_t overlap_ns(const Interval& a, std::int64_t start_ns, std::int64_t end_ns) {
  return std::max<std::int64_t>(0, std::min(a.end_ns, end_ns) - std::max(a.start_ns, start_ns));
}

bool is_gather(Collective collective) {
  return collective == Collective::all_gather;
}

/// The events of a stretch of time, sorted for the questions that a wait asks.
class Stretch {
 public:
  explicit Stretch(std::span<const Event> events) {
    for (const Event& event : events) {
      switch (event.kind) {
        case Kind::collective_issue: issues_[key_of(event)].push_back(event); break;
        case Kind::collective_run: runs_[key_of(event)].push_back(event); break;
        case Kind::forward:
        case Kind::backward: layers_[event.rank].push_back(event.begin_ns); break;
        case Kind::step: steps_[event.rank].emplace_back(event.end_ns, event.step); break;
        default: break;
      }
    }
    const auto by_begin = [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; };
    for (auto& [key, list] : issues_) std::sort(list.begin(), list.end(), by_begin);
    for (auto& [key, list] : runs_) std::sort(list.begin(), list.end(), by_begin);
    for (auto& [rank, list] : layers_) std::sort(list.begin(), list.end());
    for (auto& [rank, list] : steps_) std::sort(list.begin(), list.end());
  }

  /// The step to which something of `rank` that ends then belongs; -1: none that has ended.
  int step_of(int rank, std::int64_t end_ns) const {
    const auto steps = steps_.find(rank);
    if (steps == steps_.end()) return -1;
    const auto found =
        std::lower_bound(steps->second.begin(), steps->second.end(), std::pair(end_ns, INT32_MIN));
    return found == steps->second.end() ? -1 : found->second;
  }

  /// The run that a wait of this key, which ends then, waited for; null: not recorded.
  const Event* run_of(const Key& key, std::int64_t wait_end_ns) const {
    const Event* found = nullptr;
    const auto runs = runs_.find(key);
    if (runs == runs_.end()) return nullptr;
    for (const Event& run : runs->second) {
      if (run.end_ns <= wait_end_ns && (found == nullptr || run.end_ns > found->end_ns)) found = &run;
    }
    return found;
  }

  /// The run of another rank that belongs to the same collective as `run`: it had begun when that one ended.
  const Event* partner(const Event& run, int rank) const {
    const auto runs = runs_.find({rank, run.bucket, run.detail});
    if (runs == runs_.end()) return nullptr;
    const Event* found = nullptr;
    for (const Event& other : runs->second) {
      if (other.begin_ns <= run.end_ns && other.end_ns >= run.begin_ns) found = &other;
    }
    return found;
  }

  /// When the run was issued; its begin where that was not recorded.
  std::int64_t issued_ns(const Event& run) const {
    const auto issues = issues_.find(key_of(run));
    std::int64_t at_ns = run.begin_ns;
    if (issues == issues_.end()) return at_ns;
    for (const Event& issue : issues->second) {
      if (issue.begin_ns <= run.begin_ns) at_ns = issue.begin_ns;
    }
    return at_ns;
  }

  bool layer_begins_between(int rank, std::int64_t after_ns, std::int64_t before_ns) const {
    const auto layers = layers_.find(rank);
    if (layers == layers_.end()) return false;
    const auto next = std::upper_bound(layers->second.begin(), layers->second.end(), after_ns);
    return next != layers->second.end() && *next < before_ns;
  }

 private:
  std::map<Key, std::vector<Event>> issues_;
  std::map<Key, std::vector<Event>> runs_;
  std::map<int, std::vector<std::int64_t>> layers_;
  std::map<int, std::vector<std::pair<std::int64_t, std::int32_t>>> steps_;
};

ExposureReason reason_of(const ExposedWait& wait, const Event& run, const OverlapFlags& flags) {
  if ((run.flags & trace::Flags::first_iteration) != 0 && !is_gather(wait.collective) && flags.reduce)
    return ExposureReason::first_iteration;
  if (!(is_gather(wait.collective) ? flags.gather : flags.reduce)) return ExposureReason::no_overlap;
  const std::int64_t largest = std::max({wait.queueing_ns, wait.peers_ns, wait.transfer_ns});
  if (wait.queueing_ns == largest && largest > 0) return ExposureReason::queueing;
  if (wait.peers_ns == largest && largest > 0) return ExposureReason::slow_peer;
  return wait.transfer_reason;
}

ExposedWait explain_wait(const Event& event, const Stretch& stretch, int ranks, const OverlapFlags& flags) {
  ExposedWait wait;
  wait.rank = event.rank;
  wait.bucket = event.bucket;
  wait.collective = static_cast<Collective>(event.detail);
  wait.when = {event.begin_ns, event.end_ns};
  const Event* run = stretch.run_of(key_of(event), event.end_ns);
  if (run == nullptr) return wait;
  std::int64_t all_began_ns = run->begin_ns;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == event.rank) continue;
    const Event* other = stretch.partner(*run, rank);
    if (other == nullptr || other->begin_ns <= all_began_ns) continue;
    all_began_ns = other->begin_ns;
    wait.slowest_rank = rank;
  }
  wait.queueing_ns = overlap_ns(wait.when, INT64_MIN, run->begin_ns);
  wait.peers_ns = overlap_ns(wait.when, run->begin_ns, all_began_ns);
  wait.transfer_ns = overlap_ns(wait.when, all_began_ns, run->end_ns);
  wait.rest_ns = overlap_ns(wait.when, std::max(all_began_ns, run->end_ns), INT64_MAX);
  const bool hides = stretch.layer_begins_between(wait.rank, stretch.issued_ns(*run), wait.when.start_ns);
  wait.transfer_reason = hides ? ExposureReason::transfer : ExposureReason::late;
  wait.reason = reason_of(wait, *run, flags);
  return wait;
}

/// Without its first `ns`, of which another wait has told.
ExposedWait without_first(std::int64_t ns, ExposedWait wait) {
  wait.when.start_ns += ns;
  for (std::int64_t* part : {&wait.queueing_ns, &wait.peers_ns, &wait.transfer_ns, &wait.rest_ns}) {
    const std::int64_t cut = std::min(*part, ns);
    *part -= cut;
    ns -= cut;
  }
  return wait;
}

/// `waits` by rank, then time.
ExposureShares shares_of_step(std::span<const ExposedWait> waits) {
  ExposureShares shares;
  std::int64_t told_until_ns = INT64_MIN;
  int rank = -1;
  for (const ExposedWait& wait : waits) {
    if (wait.rank != rank) told_until_ns = INT64_MIN;
    rank = wait.rank;
    if (wait.when.end_ns <= told_until_ns) continue;
    const bool overlaps = told_until_ns > wait.when.start_ns;
    shares.add(overlaps ? without_first(told_until_ns - wait.when.start_ns, wait) : wait);
    told_until_ns = wait.when.end_ns;
  }
  return shares;
}

}  // namespace

std::string_view name(ExposureReason reason) {
  switch (reason) {
    case ExposureReason::unknown: return "unknown";
    case ExposureReason::first_iteration: return "first iteration";
    case ExposureReason::no_overlap: return "no overlap";
    case ExposureReason::queueing: return "queueing";
    case ExposureReason::slow_peer: return "slow peer";
    case ExposureReason::late: return "late";
    case ExposureReason::transfer: return "transfer";
  }
  return "unknown";
}

std::string explain(ExposureReason reason, Collective collective) {
  const bool gather = is_gather(collective);
  switch (reason) {
    case ExposureReason::unknown: return "Its run was not recorded.";
    case ExposureReason::first_iteration:
      return "The first iteration counts how often each parameter reports, and reduces everything at its "
             "end.";
    case ExposureReason::no_overlap:
      return gather ? "Without --overlap-param-gather all gathers run at once after the step."
                    : "Without --overlap-grad-reduce all reductions run at once after backward.";
    case ExposureReason::queueing:
      return "It stood in line: the communication stream was still busy with earlier work.";
    case ExposureReason::slow_peer: return "It had begun here, and waited for a rank that came later.";
    case ExposureReason::late:
      return gather ? "Its parameters were needed at once: no layer ran between its issue and their use."
                    : "Its last gradients came at the end of backward: no layer was left to hide behind.";
    case ExposureReason::transfer:
      return "The transfer took longer than the layers that ran between its issue and its use.";
  }
  return {};
}

OverlapFlags overlap_flags(const trace::RunInfo& info) {
  const OverlapFlags unknown;
  return {run_flag(info, "overlap_grad_reduce", unknown.reduce),
          run_flag(info, "overlap_param_gather", unknown.gather)};
}

std::int64_t ExposedWait::share_ns(ExposureReason of) const {
  const bool whole = reason == ExposureReason::first_iteration || reason == ExposureReason::no_overlap ||
                     reason == ExposureReason::unknown;
  if (whole) return of == reason ? when.end_ns - when.start_ns : 0;
  return (of == ExposureReason::queueing ? queueing_ns : 0) +
         (of == ExposureReason::slow_peer ? peers_ns : 0) + (of == transfer_reason ? transfer_ns : 0) +
         (of == reason ? rest_ns : 0);
}

void ExposureShares::add(const ExposedWait& wait) {
  for (int i = 0; i < exposure_reason_count; ++i)
    ns[static_cast<std::size_t>(i)] += wait.share_ns(static_cast<ExposureReason>(i));
}

ExposureReason ExposureShares::largest() const {
  const auto found = std::max_element(ns.begin(), ns.end());
  return *found > 0 ? static_cast<ExposureReason>(found - ns.begin()) : ExposureReason::unknown;
}

StepExposure explain_step(std::span<const Event> events, int ranks, int step, const OverlapFlags& flags) {
  StepExposure result;
  result.step = step;
  result.report.figures.step = step;
  for (trace::StepReport& report : trace::analyze_overlap(events, ranks).steps) {
    if (report.figures.step == step) result.report = std::move(report);
  }
  const Stretch stretch(events);
  for (const Event& event : events) {
    if (event.kind != Kind::collective_wait || event.stream != trace::StreamId::compute ||
        event.end_ns <= event.begin_ns || stretch.step_of(event.rank, event.end_ns) != step)
      continue;
    result.waits.push_back(explain_wait(event, stretch, ranks, flags));
    result.waits.back().step = step;
  }
  std::stable_sort(result.waits.begin(), result.waits.end(), [](const ExposedWait& a, const ExposedWait& b) {
    return std::tuple(a.rank, a.when.start_ns) < std::tuple(b.rank, b.when.start_ns);
  });
  for (const ExposedWait& wait : result.waits) result.buckets[wait.bucket].add(wait);
  result.all = shares_of_step(result.waits);
  return result;
}

StepExposure explain_step(const EventIndex& events, int step, const OverlapFlags& flags) {
  const EventIndex::Step* found = events.find_step(step);
  if (found == nullptr) return explain_step(std::span<const Event>{}, events.ranks(), step, flags);
  // What belongs to this step began in the step before at the earliest, and has ended by this step's end.
  const EventIndex::Step* before = events.find_step(step - 1);
  const std::int64_t after_ns = before != nullptr ? before->when.start_ns - 1 : events.range().start_ns - 1;
  std::vector<Event> window;
  events.visit(after_ns, found->when.end_ns, {}, [&](EventId, const Event& event) {
    window.push_back(event);
    return true;
  });
  return explain_step(window, events.ranks(), step, flags);
}

}  // namespace zero1::viz
