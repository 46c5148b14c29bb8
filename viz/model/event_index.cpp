#include "viz/model/event_index.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "viz/model/event_index_impl.h"

namespace zero1::viz {

EventIndex::EventIndex(int ranks) : impl_(std::make_unique<Impl>()) {
  impl_->ranks = ranks;
}

EventIndex::~EventIndex() = default;

std::shared_ptr<EventIndex> EventIndex::open(trace::Reader reader) {
  auto index = std::make_shared<EventIndex>(reader.info().ranks);
  index->set_dropped(reader.dropped());
  index->impl_->loader = std::make_unique<EventLoader>(std::move(reader));
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

bool EventIndex::absorb(double budget_ms) {
  Impl& impl = *impl_;
  std::vector<trace::Event> taken;
  bool changed = false;
  {
    const std::lock_guard lock(impl.mutex);
    taken.swap(impl.pushed);
    changed = impl.dropped != impl.pushed_dropped;
    impl.dropped = impl.pushed_dropped;
  }
  for (const trace::Event& event : taken) {
    if (impl.store.size() > Impl::last_id) {
      ++impl.beyond;
      continue;
    }
    impl.store.append(event);
    impl.add(impl.store.size() - 1);
  }
  changed |= !taken.empty();
  if (impl.loader) changed |= impl.load(budget_ms);
  if (changed) ++impl.revision;
  return changed;
}

void EventIndex::absorb_all() {
  do {
    if (impl_->loader) impl_->loader->wait();
    absorb(0);
  } while (loading());
}

bool EventIndex::loading() const {
  return impl_->loader != nullptr;
}

double EventIndex::progress() const {
  const std::int64_t count = impl_->loader ? impl_->loader->count() : 0;
  return count == 0 ? 1.0 : static_cast<double>(size()) / static_cast<double>(count);
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
  return impl_->store.size();
}
std::int64_t EventIndex::dropped() const {
  return impl_->dropped + impl_->beyond;
}
trace::Event EventIndex::event(EventId id) const {
  return impl_->store.event(id);
}
trace::Interval EventIndex::range() const {
  return impl_->range;
}
std::span<const EventIndex::Step> EventIndex::steps() const {
  return impl_->steps;
}
std::span<const EventLane* const> EventIndex::lanes() const {
  return impl_->ordered_lanes;
}
const EventStore& EventIndex::store() const {
  return impl_->store;
}

const EventIndex::Step* EventIndex::find_step(int step) const {
  const auto found = impl_->step_places.find(step);
  return found == impl_->step_places.end() ? nullptr : &impl_->steps[found->second];
}

// ---- filling ----

bool EventIndex::Impl::load(double budget_ms) {
  const std::int64_t start_ns = now_ns();
  bool changed = false;
  while (auto block = loader->take()) {
    const std::int64_t first = store.size();
    if (first + block->size() - 1 > last_id) {
      beyond += block->size();
      continue;
    }
    store.append(std::move(block));
    for (EventId id = first; id < store.size(); ++id) add(id);
    changed = true;
    if (budget_ms > 0 && static_cast<double>(now_ns() - start_ns) > budget_ms * 1e6) break;
  }
  if (!loader->finished()) return changed;
  error = loader->error();
  loader.reset();
  return true;
}

void EventIndex::Impl::add(EventId id) {
  const Summary event = EventRow::summary(store, id);
  const bool first = id == 0;
  range.start_ns = first ? event.begin_ns : std::min(range.start_ns, event.begin_ns);
  range.end_ns = first ? event.end_ns : std::max(range.end_ns, event.end_ns);
  const auto rank = static_cast<int>(store.value(Column::rank, id));
  lane(rank, static_cast<trace::StreamId>(store.value(Column::stream, id))).append(id, event);
  if (has_postings(event.kind)) postings[{event.kind, rank, event.bucket}].append(id, event.end_ns);
  if (event.kind == trace::Kind::step)
    add_step(static_cast<std::int32_t>(store.value(Column::step, id)), event);
}

EventLane& EventIndex::Impl::lane(int rank, trace::StreamId stream) {
  if (last_lane != nullptr && last_lane->rank() == rank && last_lane->stream() == stream) return *last_lane;
  auto& found = lanes[{rank, static_cast<int>(stream)}];
  if (!found) {
    found = std::make_unique<EventLane>(rank, stream);
    lanes_changed = true;
  }
  if (lanes_changed) {
    ordered_lanes.clear();
    for (const auto& [key, each] : lanes) ordered_lanes.push_back(each.get());
    lanes_changed = false;
  }
  last_lane = found.get();
  return *found;
}

void EventIndex::Impl::add_step(std::int32_t step, const Summary& event) {
  const auto [place, is_new] = step_places.try_emplace(step, steps.size());
  if (is_new) steps.push_back({step, {event.begin_ns, event.end_ns}, 0});
  Step& known = steps[place->second];
  known.when = {std::min(known.when.start_ns, event.begin_ns), std::max(known.when.end_ns, event.end_ns)};
  ++known.ranks;
}

}  // namespace zero1::viz
