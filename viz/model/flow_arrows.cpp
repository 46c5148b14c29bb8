#include "viz/model/flow_arrows.h"

#include <algorithm>
#include <numeric>

#include "core/trace/flows.h"

namespace zero1::viz {

using trace::Kind;

trace::Interval with_whole_steps(const EventIndex& events, trace::Interval window) {
  trace::Interval wide = window;
  for (const EventIndex::Step& step : events.steps()) {
    if (step.when.end_ns < window.start_ns || step.when.start_ns > window.end_ns) continue;
    wide.start_ns = std::min(wide.start_ns, step.when.start_ns);
    wide.end_ns = std::max(wide.end_ns, step.when.end_ns);
  }
  return wide;
}

std::optional<std::vector<FlowArrow>> find_arrows(const EventIndex& events, trace::Interval window,
                                                  std::optional<int> rank, std::optional<int> bucket,
                                                  std::int64_t most_events) {
  const std::int64_t after_ns = window.start_ns == INT64_MIN ? window.start_ns : window.start_ns - 1;
  std::vector<EventId> ids;
  std::vector<trace::Event> found;
  for (const Kind kind :
       {Kind::grad_ready, Kind::collective_issue, Kind::collective_run, Kind::collective_wait}) {
    bool all = true;
    events.visit(after_ns, window.end_ns, {.kind = kind, .rank = rank, .bucket = bucket},
                 [&](EventId id, const trace::Event& event) {
                   all = static_cast<std::int64_t>(ids.size()) < most_events;
                   ids.push_back(id);
                   found.push_back(event);
                   return all;
                 });
    if (!all) return {};
  }
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return found[a].begin_ns < found[b].begin_ns; });
  std::vector<trace::Event> sorted;
  for (const std::size_t i : order) sorted.push_back(found[i]);

  std::vector<trace::FlowPoint> points = trace::find_flows(sorted);
  std::stable_sort(points.begin(), points.end(), [](const trace::FlowPoint& a, const trace::FlowPoint& b) {
    return a.id != b.id ? a.id < b.id : a.phase < b.phase;
  });
  std::vector<FlowArrow> arrows;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const trace::FlowPoint &from = points[i - 1], &to = points[i];
    if (from.id != to.id) continue;
    arrows.push_back({ids[order[static_cast<std::size_t>(from.event)]],
                      ids[order[static_cast<std::size_t>(to.event)]], from.at_ns, to.at_ns, to.readiness});
  }
  return arrows;
}

}  // namespace zero1::viz
