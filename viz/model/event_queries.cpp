// Questions of order in time. Every list of events is sorted by (end, number), so each question is a binary
// search per list and a walk to the first event that matches, past whole blocks that hold none.
#include <algorithm>
#include <queue>

#include "viz/model/event_index_impl.h"

namespace zero1::viz {

bool EventFilter::matches(const trace::Event& event) const {
  const auto same = [](const auto& wanted, auto value) { return !wanted || *wanted == value; };
  return same(kind, event.kind) && same(rank, event.rank) && same(bucket, event.bucket) &&
         same(param, event.param) && same(layer, event.layer) && same(step, event.step) &&
         same(stream, event.stream) && same(detail, event.detail);
}

std::vector<const TimeList*> EventIndex::Impl::lists(const EventFilter& filter) const {
  std::vector<const TimeList*> result;
  if (filter.kind && has_postings(*filter.kind) && filter.rank && filter.bucket) {
    const auto found = postings.find({*filter.kind, *filter.rank, *filter.bucket});
    if (found != postings.end()) result.push_back(&found->second);
  } else {
    for (const EventLane* lane : ordered_lanes) {
      if (filter.rank && *filter.rank != lane->rank()) continue;
      if (filter.stream && *filter.stream != lane->stream()) continue;
      for (const EventRow* row : lane->rows()) {
        if (!filter.kind || level_of(*filter.kind) == row->level()) result.push_back(&row->events());
      }
    }
  }
  for (const TimeList* list : result) list->sort(store);
  return result;
}

namespace {

/// A filter that remembers what a block's marks said: walking past its events costs a comparison each.
class FilterCheck {
 public:
  FilterCheck(const EventStore& store, const EventFilter& filter) : store_(store), filter_(filter) {}

  bool may_match(EventId id) {
    const EventId block = id >> EventBlock::log2_capacity;
    if (block != block_) {
      block_ = block;
      may_ = store_.block_may_match(id, filter_);
    }
    return may_;
  }
  bool matches(EventId id) const {
    const auto same = [&](const auto& wanted, Column column) {
      return !wanted || static_cast<std::int64_t>(*wanted) == store_.value(column, id);
    };
    return same(filter_.kind, Column::kind) && same(filter_.bucket, Column::bucket) &&
           same(filter_.param, Column::param) && same(filter_.rank, Column::rank) &&
           same(filter_.layer, Column::layer) && same(filter_.step, Column::step) &&
           same(filter_.stream, Column::stream) && same(filter_.detail, Column::detail);
  }

 private:
  const EventStore& store_;
  const EventFilter& filter_;
  EventId block_ = -1;
  bool may_ = false;
};

struct TestCheck {
  const EventIndex::Test& test;
  bool may_match(EventId) const { return true; }
  bool matches(EventId id) const { return test(id); }
};

template <class Key>
std::optional<EventId> number_of(const std::optional<Key>& key) {
  return key ? std::optional(key->id) : std::nullopt;
}

}  // namespace

template <class Check>
std::optional<EventIndex::Impl::Key> EventIndex::Impl::last_below(Key limit, const EventFilter& filter,
                                                                  Check check) const {
  std::optional<Key> best;
  for (const TimeList* list : lists(filter)) {
    for (std::int64_t i = list->after(store, limit.end_ns, limit.id - 1) - 1; i >= 0; --i) {
      const EventId id = list->at(i);
      const bool may_match = check.may_match(id);
      if (!may_match && !best) continue;
      const Key candidate = key(id);
      if (best && candidate < *best) break;
      if (!may_match || !check.matches(id)) continue;
      best = candidate;
      break;
    }
  }
  return best;
}

template <class Check>
std::optional<EventIndex::Impl::Key> EventIndex::Impl::first_above(Key limit, const EventFilter& filter,
                                                                   Check check) const {
  std::optional<Key> best;
  for (const TimeList* list : lists(filter)) {
    for (std::int64_t i = list->after(store, limit.end_ns, limit.id); i < list->size(); ++i) {
      const EventId id = list->at(i);
      const bool may_match = check.may_match(id);
      if (!may_match && !best) continue;
      const Key candidate = key(id);
      if (best && candidate > *best) break;
      if (!may_match || !check.matches(id)) continue;
      best = candidate;
      break;
    }
  }
  return best;
}

std::optional<EventId> EventIndex::last_at(std::int64_t at_ns, const EventFilter& filter) const {
  return number_of(impl_->last_below({at_ns, INT64_MAX}, filter, FilterCheck(impl_->store, filter)));
}

std::optional<EventId> EventIndex::first_after(std::int64_t at_ns, const EventFilter& filter) const {
  return number_of(impl_->first_above({at_ns, INT64_MAX}, filter, FilterCheck(impl_->store, filter)));
}

std::optional<EventId> EventIndex::next(EventId id, const EventFilter& filter) const {
  return number_of(impl_->first_above(impl_->key(id), filter, FilterCheck(impl_->store, filter)));
}

std::optional<EventId> EventIndex::previous(EventId id, const EventFilter& filter) const {
  return number_of(impl_->last_below(impl_->key(id), filter, FilterCheck(impl_->store, filter)));
}

std::optional<EventId> EventIndex::next_where(EventId id, const Test& test) const {
  return number_of(impl_->first_above(impl_->key(id), {}, TestCheck{test}));
}

std::optional<EventId> EventIndex::previous_where(EventId id, const Test& test) const {
  return number_of(impl_->last_below(impl_->key(id), {}, TestCheck{test}));
}

void EventIndex::visit(std::int64_t after_ns, std::int64_t up_to_ns, const EventFilter& filter,
                       const std::function<bool(EventId, const trace::Event&)>& visit) const {
  struct Cursor {
    Impl::Key key;
    const TimeList* list;
    std::int64_t index;
    bool operator<(const Cursor& other) const { return key > other.key; }  // the earliest on top
  };
  std::priority_queue<Cursor> cursors;
  FilterCheck check(impl_->store, filter);
  // Enters the first event of a list, from `index` on, that matches and is not too late.
  const auto enter = [&](const TimeList* list, std::int64_t index) {
    for (; index < list->size(); ++index) {
      const EventId id = list->at(index);
      if (!check.may_match(id)) continue;
      const Impl::Key key = impl_->key(id);
      if (key.end_ns > up_to_ns) return;
      if (!check.matches(id)) continue;
      cursors.push({key, list, index});
      return;
    }
  };
  for (const TimeList* list : impl_->lists(filter))
    enter(list, list->after(impl_->store, after_ns, INT64_MAX));
  while (!cursors.empty()) {
    const Cursor cursor = cursors.top();
    cursors.pop();
    if (!visit(cursor.key.id, event(cursor.key.id))) return;
    enter(cursor.list, cursor.index + 1);
  }
}

}  // namespace zero1::viz
