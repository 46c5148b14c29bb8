#include "viz/model/bucket_states.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace zero1::viz {

using trace::BucketState;
using trace::Kind;

namespace {

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
    case PieceState::left_over: return "stale";
    case PieceState::stepped: return "stepped";
    case PieceState::stale: return "stale";
    case PieceState::gathering: return "gathering";
    case PieceState::current: return "current";
  }
  return "unknown";
}

BucketMoment BucketStates::at(int rank, int bucket, std::int64_t at_ns) {
  BucketMoment moment;
  const EventFilter states{.kind = Kind::bucket_state, .rank = rank, .bucket = bucket};
  const std::optional<EventId> last = events_.last_at(at_ns, states);
  if (!last) return moment;
  const trace::Event event = events_.event(*last);
  if (event.detail > static_cast<std::uint8_t>(BucketState::current)) return moment;  // of a later version
  const auto state = static_cast<BucketState>(event.detail);
  moment.step = std::max(event.step, 0);
  moment.since_ns = event.end_ns;
  bool all_reduce = false;
  if (state == BucketState::reduced) {
    const auto issue =
        events_.last_at(at_ns, {.kind = Kind::collective_issue, .rank = rank, .bucket = bucket});
    all_reduce =
        issue && events_.event(*issue).detail == static_cast<std::uint8_t>(trace::Collective::all_reduce);
  }
  set_states(moment, state, all_reduce);
  moment.golden = golden(rank, bucket);
  moment.ready = moment.golden;
  if (state != BucketState::accumulating && state != BucketState::current) return moment;
  moment.ready = static_cast<int>(count_reports(rank, bucket, event.end_ns, at_ns));
  // Where gathers hide behind forward, parameters become current after gradients were set to zero: the first
  // report tells that backward has come to this bucket.
  if (moment.ready > 0) set_states(moment, BucketState::accumulating, all_reduce);
  return moment;
}

std::int64_t BucketStates::count_reports(int rank, int bucket, std::int64_t after_ns,
                                         std::int64_t up_to_ns) const {
  std::int64_t count = 0;
  events_.visit(after_ns, up_to_ns, {.kind = Kind::grad_ready, .rank = rank, .bucket = bucket},
                [&count](EventId, const trace::Event&) {
                  ++count;
                  return true;
                });
  return count;
}

std::string gradient_content(const EventIndex& events, int rank, int bucket, bool owner, std::int64_t at_ns) {
  const EventFilter states{.kind = Kind::bucket_state, .rank = rank, .bucket = bucket};
  // Updates and gathers leave gradients as they are.
  auto last = events.last_at(at_ns, states);
  while (last && events.event(*last).detail > static_cast<std::uint8_t>(BucketState::reduced))
    last = events.previous(*last, states);
  if (!last) return {};
  const trace::Event event = events.event(*last);
  const auto says = [&](const char* what) { return fmt::format("{}, iteration {}", what, event.step); };
  switch (static_cast<BucketState>(event.detail)) {
    case BucketState::accumulating: return says("local, still accumulating");
    case BucketState::ready: return says("local, complete, not reduced");
    case BucketState::reducing: return says("being reduced");
    default: break;
  }
  const EventFilter issued{.kind = Kind::collective_issue, .rank = rank, .bucket = bucket};
  const auto issue = events.last_at(event.end_ns, issued);
  const bool everywhere =
      issue && events.event(*issue).detail == static_cast<std::uint8_t>(trace::Collective::all_reduce);
  return says(owner || everywhere ? "reduced" : "stale, left over by the reduction");
}

// A rank learns the counts in its first iteration: all reports until the bucket is ready for the first time.
int BucketStates::golden(int rank, int bucket) {
  const auto known = golden_.find({rank, bucket});
  if (known != golden_.end()) return known->second;
  const EventFilter first_ready{.kind = Kind::bucket_state,
                                .rank = rank,
                                .bucket = bucket,
                                .detail = static_cast<std::uint8_t>(BucketState::ready)};
  constexpr std::int64_t before_all = std::numeric_limits<std::int64_t>::min();
  const std::optional<EventId> ready = events_.first_after(before_all, first_ready);
  if (!ready) return 0;
  const auto count = static_cast<int>(count_reports(rank, bucket, before_all, events_.event(*ready).end_ns));
  // A recording that still loads has not told yet which is the first.
  if (!events_.loading()) golden_.emplace(std::pair(rank, bucket), count);
  return count;
}

}  // namespace zero1::viz
