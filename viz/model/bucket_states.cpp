#include "viz/model/bucket_states.h"

#include <algorithm>

namespace zero1::viz {

using trace::BucketState;
using trace::Event;
using trace::Kind;

namespace {

/// Where an entry of `at_ns` belongs; at the end, unless it came late.
template <class Entry>
auto place_of(std::vector<Entry>& entries, std::int64_t at_ns) {
  if (entries.empty() || entries.back().at_ns <= at_ns) return entries.end();
  return std::upper_bound(entries.begin(), entries.end(), at_ns,
                          [](std::int64_t at, const Entry& entry) { return at < entry.at_ns; });
}

/// How many entries lie at or before `at_ns`.
template <class Entry>
std::ptrdiff_t count_until(const std::vector<Entry>& entries, std::int64_t at_ns) {
  return std::upper_bound(entries.begin(), entries.end(), at_ns,
                          [](std::int64_t at, const Entry& entry) { return at < entry.at_ns; }) -
         entries.begin();
}

void set_states(BucketMoment& moment, BucketState state, bool all_reduce) {
  const auto both = [&moment](PieceState piece) { moment.own = moment.others = piece; };
  switch (state) {
    case BucketState::accumulating: return both(PieceState::accumulating);
    case BucketState::ready: return both(PieceState::ready);
    case BucketState::reducing: return both(PieceState::reducing);
    case BucketState::reduced:
      both(PieceState::reduced);
      if (!all_reduce) moment.others = PieceState::left_over;
      return;
    case BucketState::stepped:
      moment.own = PieceState::stepped;
      moment.others = PieceState::stale;
      return;
    case BucketState::gathering:
      moment.own = PieceState::stepped;
      moment.others = PieceState::gathering;
      return;
    case BucketState::current: return both(PieceState::current);
  }
}

}  // namespace

std::string_view name(PieceState state) {
  switch (state) {
    case PieceState::unknown: return "not begun";
    case PieceState::accumulating: return "accumulating";
    case PieceState::ready: return "ready";
    case PieceState::reducing: return "reducing";
    case PieceState::reduced: return "reduced";
    case PieceState::left_over: return "left over";
    case PieceState::stepped: return "stepped";
    case PieceState::stale: return "stale";
    case PieceState::gathering: return "gathering";
    case PieceState::current: return "current";
  }
  return "unknown";
}

BucketStates::BucketStates(int ranks, int buckets)
    : ranks_(ranks),
      buckets_(buckets),
      histories_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(buckets)) {}

void BucketStates::add(std::span<const Event> events) {
  for (const Event& event : events) {
    const bool counts = event.kind == Kind::bucket_state || event.kind == Kind::grad_ready ||
                        event.kind == Kind::collective_issue;
    if (!counts || event.rank < 0 || event.rank >= ranks_ || event.bucket < 0 || event.bucket >= buckets_) {
      continue;
    }
    History& history = histories_[static_cast<std::size_t>(event.rank) * static_cast<std::size_t>(buckets_) +
                                  static_cast<std::size_t>(event.bucket)];
    if (event.kind == Kind::bucket_state) {
      add_change(history, event);
    } else if (event.kind == Kind::grad_ready) {
      add_report(history, event);
    } else if (event.detail == static_cast<std::uint8_t>(trace::Collective::all_reduce)) {
      history.all_reduce = true;
    }
  }
}

void BucketStates::add_change(History& history, const Event& event) {
  if (event.detail > static_cast<std::uint8_t>(BucketState::current)) return;  // of a later version
  history.changes.insert(place_of(history.changes, event.begin_ns),
                         {event.begin_ns, event.step, static_cast<BucketState>(event.detail)});
}

void BucketStates::add_report(History& history, const Event& event) {
  if (history.first_step < 0 || event.step < history.first_step) {
    history.first_step = event.step;
    history.golden = 0;
  }
  if (event.step == history.first_step) ++history.golden;
  history.golden_known |= event.step > history.first_step;
  history.reports.insert(place_of(history.reports, event.begin_ns), {event.begin_ns, event.step});
}

BucketMoment BucketStates::at(int rank, int bucket, std::int64_t at_ns) const {
  BucketMoment moment;
  if (rank < 0 || rank >= ranks_ || bucket < 0 || bucket >= buckets_) return moment;
  const History& history = histories_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(buckets_) +
                                      static_cast<std::size_t>(bucket)];
  const std::ptrdiff_t changes = count_until(history.changes, at_ns);
  if (changes > 0) {
    const Change& change = history.changes[static_cast<std::size_t>(changes) - 1];
    set_states(moment, change.state, history.all_reduce);
    moment.step = std::max(change.step, 0);
    moment.since_ns = change.at_ns;
  }
  const std::ptrdiff_t reports = count_until(history.reports, at_ns);
  for (std::ptrdiff_t i = reports; i > 0; --i) {
    if (history.reports[static_cast<std::size_t>(i) - 1].step != moment.step) break;
    ++moment.ready;
  }
  // Golden counts are known once a second iteration has begun, also to whoever looks at the first.
  if (history.golden_known || moment.own > PieceState::accumulating) moment.golden = history.golden;
  return moment;
}

}  // namespace zero1::viz
