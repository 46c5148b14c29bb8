#include "viz/model/event_index.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/base/error.h"

namespace zero1::viz {

bool EventFilter::matches(const trace::Event& event) const {
  const auto same = [](const auto& wanted, auto value) { return !wanted || *wanted == value; };
  return same(kind, event.kind) && same(rank, event.rank) && same(bucket, event.bucket) &&
         same(param, event.param) && same(layer, event.layer) && same(step, event.step) &&
         same(stream, event.stream) && same(detail, event.detail);
}

struct EventIndex::Impl {
  int ranks = 1;
  std::mutex mutex;
  std::vector<trace::Event> pushed;
  std::int64_t pushed_dropped = 0;
  std::vector<trace::Event> events;
  std::int64_t dropped = 0;
  std::uint64_t revision = 0;
  trace::Interval range;
  std::vector<Step> steps;
  std::string error;

  void add(const trace::Event& event) {
    range.start_ns = events.empty() ? event.begin_ns : std::min(range.start_ns, event.begin_ns);
    range.end_ns = events.empty() ? event.end_ns : std::max(range.end_ns, event.end_ns);
    events.push_back(event);
    if (event.kind != trace::Kind::step) return;
    auto found =
        std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.step == event.step; });
    if (found == steps.end())
      found = steps.insert(steps.end(), {event.step, {event.begin_ns, event.end_ns}, 0});
    found->when = {std::min(found->when.start_ns, event.begin_ns),
                   std::max(found->when.end_ns, event.end_ns)};
    ++found->ranks;
  }
};

EventIndex::EventIndex(int ranks) : impl_(std::make_unique<Impl>()) {
  impl_->ranks = ranks;
}
EventIndex::~EventIndex() = default;

std::shared_ptr<EventIndex> EventIndex::open(trace::Reader reader) {
  auto index = std::make_shared<EventIndex>(reader.info().ranks);
  try {
    reader.for_each_chunk([&](std::span<const trace::Event> events) { index->push(events); });
  } catch (const InputError& error) {
    index->impl_->error = error.what();
  }
  index->set_dropped(reader.dropped());
  return index;
}

void EventIndex::push(std::span<const trace::Event> events) {
  const std::lock_guard lock(impl_->mutex);
  impl_->pushed.insert(impl_->pushed.end(), events.begin(), events.end());
}

void EventIndex::set_dropped(std::int64_t count) {
  const std::lock_guard lock(impl_->mutex);
  impl_->pushed_dropped = count;
}

bool EventIndex::absorb(double) {
  std::vector<trace::Event> taken;
  {
    const std::lock_guard lock(impl_->mutex);
    taken.swap(impl_->pushed);
    impl_->dropped = impl_->pushed_dropped;
  }
  for (const trace::Event& event : taken) impl_->add(event);
  if (!taken.empty()) ++impl_->revision;
  return !taken.empty();
}

void EventIndex::absorb_all() {
  absorb(0);
}
bool EventIndex::loading() const {
  return false;
}
double EventIndex::progress() const {
  return 1;
}
const std::string& EventIndex::error() const {
  return impl_->error;
}
std::uint64_t EventIndex::revision() const {
  return impl_->revision;
}
int EventIndex::ranks() const {
  return impl_->ranks;
}
std::int64_t EventIndex::size() const {
  return static_cast<std::int64_t>(impl_->events.size());
}
std::int64_t EventIndex::dropped() const {
  return impl_->dropped;
}
trace::Event EventIndex::event(EventId id) const {
  return impl_->events.at(static_cast<std::size_t>(id));
}
trace::Interval EventIndex::range() const {
  return impl_->range;
}

namespace {
using Key = std::pair<std::int64_t, EventId>;
}

std::optional<EventId> EventIndex::last_at(std::int64_t at_ns, const EventFilter& filter) const {
  std::optional<Key> best;
  for (EventId id = 0; id < size(); ++id) {
    const trace::Event& event = impl_->events[static_cast<std::size_t>(id)];
    const Key key{event.end_ns, id};
    if (event.end_ns <= at_ns && filter.matches(event) && (!best || key > *best)) best = key;
  }
  return best ? std::optional(best->second) : std::nullopt;
}

std::optional<EventId> EventIndex::first_after(std::int64_t at_ns, const EventFilter& filter) const {
  std::optional<Key> best;
  for (EventId id = 0; id < size(); ++id) {
    const trace::Event& event = impl_->events[static_cast<std::size_t>(id)];
    const Key key{event.end_ns, id};
    if (event.end_ns > at_ns && filter.matches(event) && (!best || key < *best)) best = key;
  }
  return best ? std::optional(best->second) : std::nullopt;
}

std::optional<EventId> EventIndex::next(EventId from, const EventFilter& filter) const {
  std::optional<Key> best;
  const Key start{event(from).end_ns, from};
  for (EventId id = 0; id < size(); ++id) {
    const trace::Event& event = impl_->events[static_cast<std::size_t>(id)];
    const Key key{event.end_ns, id};
    if (key > start && filter.matches(event) && (!best || key < *best)) best = key;
  }
  return best ? std::optional(best->second) : std::nullopt;
}

std::optional<EventId> EventIndex::previous(EventId from, const EventFilter& filter) const {
  std::optional<Key> best;
  const Key start{event(from).end_ns, from};
  for (EventId id = 0; id < size(); ++id) {
    const trace::Event& event = impl_->events[static_cast<std::size_t>(id)];
    const Key key{event.end_ns, id};
    if (key < start && filter.matches(event) && (!best || key > *best)) best = key;
  }
  return best ? std::optional(best->second) : std::nullopt;
}

void EventIndex::visit(std::int64_t after_ns, std::int64_t up_to_ns, const EventFilter& filter,
                       const std::function<bool(EventId, const trace::Event&)>& visit) const {
  std::vector<Key> found;
  for (EventId id = 0; id < size(); ++id) {
    const trace::Event& event = impl_->events[static_cast<std::size_t>(id)];
    if (event.end_ns > after_ns && event.end_ns <= up_to_ns && filter.matches(event))
      found.push_back({event.end_ns, id});
  }
  std::sort(found.begin(), found.end());
  for (const Key& key : found) {
    if (!visit(key.second, event(key.second))) return;
  }
}

std::span<const EventIndex::Step> EventIndex::steps() const {
  return impl_->steps;
}
const EventIndex::Step* EventIndex::find_step(int step) const {
  for (const Step& s : impl_->steps) {
    if (s.step == step) return &s;
  }
  return nullptr;
}

}  // namespace zero1::viz
