#include "core/trace/flows.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace zero1::trace {

namespace {

/// Rank, bucket, collective: on one rank, collectives of the same key follow one another in order.
using Key = std::tuple<int, int, int>;

Key key_of(const Event& event) {
  return {event.rank, event.bucket, event.detail};
}

bool is_reduction(const Event& event) {
  return event.detail == static_cast<std::uint8_t>(Collective::reduce_scatter) ||
         event.detail == static_cast<std::uint8_t>(Collective::all_reduce);
}

class FlowFinder {
 public:
  explicit FlowFinder(std::span<const Event> events) : events_(events) {}

  std::vector<FlowPoint> find() {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(events_.size()); ++i) {
      const Event& event = at(i);
      if (event.kind == Kind::grad_ready) ready_[{event.rank, event.bucket}][event.param] = i;
      if (event.kind == Kind::collective_issue) collectives_[key_of(event)].issues.push_back(i);
      if (event.kind == Kind::collective_wait) collectives_[key_of(event)].waits.push_back(i);
      if (event.kind == Kind::collective_run) add_run(i);
    }
    // A wait may begin before its run does, so the two are paired when all are known.
    for (auto& [key, collective] : collectives_) add_collectives(collective);
    std::stable_sort(points_.begin(), points_.end(),
                     [](const FlowPoint& a, const FlowPoint& b) { return a.event < b.event; });
    return std::move(points_);
  }

 private:
  struct Collectives {
    std::deque<std::int64_t> issues, runs, waits;  ///< event indices, by begin
  };

  const Event& at(std::int64_t index) const { return events_[static_cast<std::size_t>(index)]; }

  void add_run(std::int64_t run) {
    const Event& event = at(run);
    collectives_[key_of(event)].runs.push_back(run);
    if (!is_reduction(event)) return;
    auto& reports = ready_[{event.rank, event.bucket}];
    for (const auto& [param, report] : reports) {
      add(report, at(report).begin_ns, FlowPhase::start, true);
      add(run, event.begin_ns, FlowPhase::end, true);
      ++id_;
    }
    reports.clear();
  }

  void add_collectives(Collectives& collective) {
    while (!collective.runs.empty()) {
      const std::int64_t run = collective.runs.front();
      collective.runs.pop_front();
      const Event& event = at(run);
      const std::int64_t next_run_ns =
          collective.runs.empty() ? INT64_MAX : at(collective.runs.front()).begin_ns;

      // Issues and runs of a key come in the same order; a step tells where one of them is missing.
      std::int64_t issue = -1;
      auto& issues = collective.issues;
      while (!issues.empty() && at(issues.front()).step < event.step) issues.pop_front();
      if (!issues.empty() && at(issues.front()).step == event.step &&
          at(issues.front()).begin_ns <= event.begin_ns) {
        issue = issues.front();
        issues.pop_front();
      }
      // A wait of this run is not over before the run begins, and begins before the next run does.
      std::int64_t wait = -1;
      auto& waits = collective.waits;
      while (!waits.empty() && at(waits.front()).end_ns <= event.begin_ns) waits.pop_front();
      if (!waits.empty() && at(waits.front()).begin_ns < next_run_ns) {
        wait = waits.front();
        waits.pop_front();
      }
      add_chain(issue, run, wait);
    }
  }

  void add_chain(std::int64_t issue, std::int64_t run, std::int64_t wait) {
    if (issue < 0 && wait < 0) return;
    const Event& event = at(run);
    if (issue >= 0) add(issue, at(issue).begin_ns, FlowPhase::start, false);
    add(run, event.begin_ns,
        issue < 0  ? FlowPhase::start
        : wait < 0 ? FlowPhase::end
                   : FlowPhase::step,
        false);
    if (wait >= 0) {
      // Where the run lets the wait go, but inside the wait.
      const std::int64_t last_ns = std::max(at(wait).begin_ns, at(wait).end_ns - 1);
      add(wait, std::clamp(event.end_ns, at(wait).begin_ns, last_ns), FlowPhase::end, false);
    }
    ++id_;
  }

  void add(std::int64_t event, std::int64_t at_ns, FlowPhase phase, bool readiness) {
    points_.push_back({event, at_ns, id_, phase, readiness});
  }

  std::span<const Event> events_;
  std::map<std::pair<int, int>, std::map<int, std::int64_t>> ready_;  ///< (rank, bucket) → param → report
  std::map<Key, Collectives> collectives_;
  std::vector<FlowPoint> points_;
  std::uint32_t id_ = 1;
};

}  // namespace

std::vector<FlowPoint> find_flows(std::span<const Event> events) {
  return FlowFinder(events).find();
}

}  // namespace zero1::trace
