#include "viz/model/logical_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "core/trace/flows.h"

namespace zero1::viz {

namespace {

using trace::Event;
using trace::Kind;

/// Puts events in order; they are sorted by begin, the outer before the inner.
class Sorter {
 public:
  explicit Sorter(std::vector<Event> events)
      : events_(std::move(events)), parents_(events_.size(), -1), node_of_(events_.size(), -1) {}

  /// The place of each event's begin and end.
  std::vector<trace::Interval> sort() {
    find_parents();
    make_nodes();
    add_program_order();
    add_flows();
    place_nodes();
    return hulls();
  }

 private:
  const Event& at(std::size_t index) const { return events_[index]; }
  bool runs_apart(const Event& event) const { return event.stream == trace::StreamId::communication; }
  /// One sequence of events: a rank's program, or its communication stream.
  std::pair<int, bool> program(const Event& event) const { return {event.rank, runs_apart(event)}; }

  /// Which event each one lies in, within its program.
  void find_parents() {
    std::map<std::pair<int, bool>, std::vector<int>> open;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      std::vector<int>& stack = open[program(at(i))];
      while (!stack.empty() && at(static_cast<std::size_t>(stack.back())).end_ns < at(i).end_ns)
        stack.pop_back();
      // What only touches is not inside.
      while (!stack.empty() && at(static_cast<std::size_t>(stack.back())).end_ns <= at(i).begin_ns)
        stack.pop_back();
      // A run has no inside: coalesced runs begin and end together and are events of their own.
      if (!stack.empty() && !runs_apart(at(i))) parents_[i] = stack.back();
      if (at(i).end_ns > at(i).begin_ns) stack.push_back(static_cast<int>(i));
    }
  }

  /// Events without an inside are nodes; the runs of one collective on all ranks are one node.
  void make_nodes() {
    std::vector<bool> has_inside(events_.size(), false);
    for (const int parent : parents_) {
      if (parent >= 0) has_inside[static_cast<std::size_t>(parent)] = true;
    }
    std::map<std::tuple<int, int, int, int>, int> times;       // (rank, step, bucket, detail) → how often
    std::map<std::tuple<int, int, int, int>, int> rendezvous;  // (step, bucket, detail, occurrence) → node
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (has_inside[i]) continue;
      const Event& event = at(i);
      int node = -1;
      if (event.kind == Kind::collective_run) {
        const int occurrence = times[{event.rank, event.step, event.bucket, event.detail}]++;
        const auto [found, is_new] =
            rendezvous.try_emplace({event.step, event.bucket, event.detail, occurrence}, nodes());
        node = found->second;
        if (!is_new) {
          node_of_[i] = node;
          continue;
        }
      }
      node_of_[i] = nodes();
      first_event_.push_back(i);
      successors_.emplace_back();
      open_causes_.push_back(0);
    }
  }

  int nodes() const { return static_cast<int>(first_event_.size()); }

  void add_edge(int from, int to) {
    if (from == to || from < 0 || to < 0) return;
    successors_[static_cast<std::size_t>(from)].push_back(to);
    ++open_causes_[static_cast<std::size_t>(to)];
  }

  void add_program_order() {
    std::map<std::pair<int, bool>, int> last;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (node_of_[i] < 0) continue;
      const auto [found, is_new] = last.try_emplace(program(at(i)), node_of_[i]);
      if (!is_new) add_edge(std::exchange(found->second, node_of_[i]), node_of_[i]);
    }
  }

  void add_flows() {
    find_entries();
    std::vector<trace::FlowPoint> points = trace::find_flows(events_);
    std::stable_sort(points.begin(), points.end(), [](const trace::FlowPoint& a, const trace::FlowPoint& b) {
      return a.id != b.id ? a.id < b.id : a.phase < b.phase;
    });
    for (std::size_t i = 1; i < points.size(); ++i) {
      if (points[i].id != points[i - 1].id) continue;
      add_edge(entry_[static_cast<std::size_t>(points[i - 1].event)],
               entry_[static_cast<std::size_t>(points[i].event)]);
    }
  }

  /// A cause of an event with an inside is one of the first in there.
  void find_entries() {
    entry_ = node_of_;
    for (std::size_t i = events_.size(); i-- > 0;) {
      if (parents_[i] >= 0) entry_[static_cast<std::size_t>(parents_[i])] = entry_[i];
    }
  }

  /// Each node as early as its causes allow. Where a strange recording has events cause one another in a
  /// circle, the one that was recorded first goes ahead.
  void place_nodes() {
    place_.assign(first_event_.size(), 0);
    std::vector<bool> placed(first_event_.size(), false);
    std::queue<int> ready;
    for (int node = 0; node < nodes(); ++node) {
      if (open_causes_[static_cast<std::size_t>(node)] == 0) ready.push(node);
    }
    int next_stuck = 0;
    for (int done = 0; done < nodes();) {
      if (ready.empty()) {
        while (placed[static_cast<std::size_t>(next_stuck)]) ++next_stuck;
        ready.push(next_stuck);
      }
      const auto node = static_cast<std::size_t>(ready.front());
      ready.pop();
      if (placed[node]) continue;
      placed[node] = true;
      ++done;
      for (const int successor : successors_[node]) {
        const auto to = static_cast<std::size_t>(successor);
        if (placed[to]) continue;
        place_[to] = std::max(place_[to], place_[node] + 1);
        if (--open_causes_[to] == 0) ready.push(successor);
      }
    }
  }

  std::vector<trace::Interval> hulls() const {
    std::vector<trace::Interval> result(events_.size(), {INT64_MAX, INT64_MIN});
    for (std::size_t i = events_.size(); i-- > 0;) {  // the inner before the outer
      if (node_of_[i] >= 0) {
        const std::int64_t place = place_[static_cast<std::size_t>(node_of_[i])];
        result[i] = {place, place + 1};
      }
      if (parents_[i] < 0) continue;
      trace::Interval& outer = result[static_cast<std::size_t>(parents_[i])];
      outer = {std::min(outer.start_ns, result[i].start_ns), std::max(outer.end_ns, result[i].end_ns)};
    }
    return result;
  }

  std::vector<Event> events_;
  std::vector<int> parents_;
  std::vector<int> node_of_;  ///< by event; -1: it has an inside
  std::vector<int> entry_;    ///< by event: its node, or that of the first event inside
  std::vector<std::size_t> first_event_;
  std::vector<std::vector<int>> successors_;
  std::vector<int> open_causes_;
  std::vector<std::int64_t> place_;
};

}  // namespace

EventId LogicalOrder::number_of(EventId original) const {
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), std::pair{original, EventId{0}});
  return found == numbers.end() || found->first != original ? -1 : found->second;
}

LogicalOrder logical_order(const EventIndex& events, trace::Interval window, std::int64_t most_events) {
  LogicalOrder result;
  result.events = std::make_shared<EventIndex>(events.ranks());
  result.when = window;
  std::vector<std::pair<Event, EventId>> found;
  events.visit(window.start_ns == INT64_MIN ? INT64_MIN : window.start_ns - 1, window.end_ns, {},
               [&](EventId id, const Event& event) {
                 if (static_cast<std::int64_t>(found.size()) == most_events) {
                   result.complete = false;
                   result.when.end_ns = event.end_ns;
                   return false;
                 }
                 found.emplace_back(event, id);
                 return true;
               });
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.first.begin_ns != b.first.begin_ns) return a.first.begin_ns < b.first.begin_ns;
    return a.first.end_ns > b.first.end_ns;
  });
  std::vector<Event> sorted;
  for (const auto& [event, id] : found) sorted.push_back(event);
  const std::vector<trace::Interval> places = Sorter(std::move(sorted)).sort();
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i].first.begin_ns = places[i].start_ns * LogicalOrder::unit_ns;
    found[i].first.end_ns = places[i].end_ns * LogicalOrder::unit_ns;
  }
  // As a recorder would hand them over: by end, the inner before the outer.
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.first.end_ns != b.first.end_ns) return a.first.end_ns < b.first.end_ns;
    return a.first.begin_ns > b.first.begin_ns;
  });
  for (const auto& [event, id] : found) {
    result.numbers.emplace_back(id, static_cast<EventId>(result.originals.size()));
    result.originals.push_back(id);
    result.events->push({&event, 1});
  }
  result.events->absorb();
  std::sort(result.numbers.begin(), result.numbers.end());
  return result;
}

}  // namespace zero1::viz
