#include "viz/model/event_lanes.h"

#include <algorithm>
#include <numeric>

namespace zero1::viz {

using trace::Kind;

int level_of(Kind kind) {
  switch (kind) {
    case Kind::step: return 0;
    case Kind::microbatch:
    case Kind::evaluation: return 1;
    case Kind::forward:
    case Kind::backward:
    case Kind::data:
    case Kind::copy_grads:
    case Kind::grad_norm:
    case Kind::clip:
    case Kind::adamw:
    case Kind::copy_params:
    case Kind::zero_grads:
    case Kind::checkpoint_snapshot:
    case Kind::checkpoint_write:
    case Kind::checkpoint_publish:
    case Kind::checkpoint_load: return 2;
    case Kind::collective_run: return 3;
    case Kind::collective_wait: return 4;
    case Kind::scale_gradients:
    case Kind::check_gradients: return 5;
    case Kind::none: break;
    case Kind::collective_issue:
    case Kind::grad_ready: return 7;
    case Kind::bucket_state: return 8;
    case Kind::memory: return 9;
  }
  return 6;  // what a later version has added
}

bool is_thin(int level) {
  return level >= 7;
}

void Summary::merge(const Summary& other) {
  begin_ns = std::min(begin_ns, other.begin_ns);
  end_ns = std::max(end_ns, other.end_ns);
  exposed |= other.exposed;
  modelled |= other.modelled;
  if (looks_like(other)) {
    weight = weight + other.weight < weight ? UINT64_MAX : weight + other.weight;
  } else if (weight >= other.weight) {
    weight -= other.weight;
  } else {
    weight = other.weight - weight;
    kind = other.kind;
    bucket = other.bucket;
    detail = other.detail;
  }
}

void TimeList::sort(const EventStore& store) const {
  if (sorted_ || by_end_.size() == ids_.size()) return;
  by_end_.resize(ids_.size());
  for (std::size_t i = 0; i < ids_.size(); ++i) by_end_[i] = ids_[i];
  std::vector<std::int64_t> ends(by_end_.size());
  // Numbers rise with arrival, so a stable sort by end sorts by (end, number).
  std::vector<std::size_t> order(by_end_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < ends.size(); ++i) ends[i] = store.end_ns(by_end_[i]);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ends[a] < ends[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) by_end_[i] = ids_[order[i]];
}

std::int64_t TimeList::after(const EventStore& store, std::int64_t end_ns, EventId id) const {
  std::int64_t first = 0, count = size();
  while (count > 0) {
    const std::int64_t half = count / 2;
    const EventId middle = at(first + half);
    const std::int64_t middle_end_ns = store.end_ns(middle);
    if (middle_end_ns < end_ns || (middle_end_ns == end_ns && middle <= id)) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

bool TimeList::contains(const EventStore& store, EventId id) const {
  sort(store);
  const std::int64_t index = after(store, store.end_ns(id), id - 1);
  return index < size() && at(index) == id;
}

Summary EventRow::summary(const EventStore& store, EventId id) {
  Summary s;
  s.begin_ns = store.begin_ns(id);
  const auto duration = static_cast<std::uint64_t>(store.duration_ns(id));
  s.end_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(s.begin_ns) + duration);
  s.kind = store.kind(id);
  s.detail = static_cast<std::uint8_t>(store.value(Column::detail, id));
  s.bucket = static_cast<std::int32_t>(store.value(Column::bucket, id));
  s.weight = std::max<std::uint64_t>(duration, 1);  // an instant has a voice, too
  s.exposed = s.kind == Kind::collective_wait &&
              store.value(Column::stream, id) == static_cast<std::int64_t>(trace::StreamId::compute);
  s.modelled = (store.value(Column::flags, id) & trace::modelled_link) != 0;
  return s;
}

void EventRow::append(EventId id, const Summary& event) {
  disjoint_ = disjoint_ && fits(event.begin_ns);
  last_end_ns_ = event.end_ns;
  const bool first = (events_.size() & (fan - 1)) == 0;
  events_.append(id, event.end_ns);
  if (first)
    open_ = event;
  else
    open_.merge(event);
  if ((events_.size() & (fan - 1)) != 0) return;
  Summary whole = open_;
  for (std::size_t level = 0;; ++level) {
    if (level == pyramid_.size()) pyramid_.emplace_back();
    Level& summaries = pyramid_[level];
    summaries.push_back(whole);
    const std::size_t count = summaries.size();
    if ((count & (fan - 1)) != 0) return;
    whole = summaries[count - fan];
    for (std::size_t i = count - fan + 1; i < count; ++i) whole.merge(summaries[i]);
  }
}

void EventLane::append(EventId id, const Summary& event) {
  const int level = level_of(event.kind);
  auto& rows = levels_[level];
  std::size_t sub = 0;
  while (sub < rows.size() && sub + 1 < most_sub_rows && !rows[sub]->fits(event.begin_ns)) ++sub;
  if (sub == rows.size()) {
    rows.push_back(std::make_unique<EventRow>(level, static_cast<int>(sub)));
    ordered_.clear();
    for (const auto& of_level : levels_) {
      for (const auto& row : of_level) ordered_.push_back(row.get());
    }
  }
  rows[sub]->append(id, event);
}

}  // namespace zero1::viz
