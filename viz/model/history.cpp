#include "viz/model/history.h"

#include <algorithm>
#include <utility>

#include "viz/model/event_index.h"
#include "viz/model/live_run.h"

namespace zero1::viz {

namespace {

using trace::Event;
using trace::Kind;

std::int64_t first_ns(const EventIndex& events) {
  return events.range().start_ns;
}

/// The event recorded last at or before `at_ns` that `wanted` accepts.
template <class Wanted>
std::optional<EventId> find_back(const EventIndex& events, std::int64_t at_ns, Wanted wanted) {
  for (auto id = events.last_at(at_ns); id; id = events.previous(*id)) {
    if (wanted(events.event(*id))) return id;
  }
  return std::nullopt;
}

template <class Wanted>
std::optional<EventId> find_ahead(const EventIndex& events, std::int64_t at_ns, Wanted wanted) {
  for (auto id = events.first_after(at_ns); id; id = events.next(*id)) {
    if (wanted(events.event(*id))) return id;
  }
  return std::nullopt;
}

bool has_bucket(const Event& event) {
  return event.bucket >= 0;
}

/// What a stretch of the record has in common, by unit: its bucket, or its kind.
struct StepStretch {
  StepUnit unit;
  int value;

  bool continues(const Event& event) const {
    return unit == StepUnit::bucket ? !has_bucket(event) || event.bucket == value
                                    : static_cast<int>(event.kind) == value;
  }
};

std::optional<StepStretch> stretch_at(const EventIndex& events, std::int64_t at_ns, StepUnit unit) {
  const auto id = find_back(events, at_ns,
                            [&](const Event& event) { return unit == StepUnit::phase || has_bucket(event); });
  if (!id) return std::nullopt;
  const Event event = events.event(*id);
  return StepStretch{unit, unit == StepUnit::bucket ? event.bucket : static_cast<int>(event.kind)};
}

std::optional<EventId> neighbour(const EventIndex& events, std::int64_t at_ns, StepUnit unit, bool forward) {
  if (unit == StepUnit::event) {
    if (forward) return events.first_after(at_ns);
    const auto current = events.last_at(at_ns);
    return current ? events.last_at(events.event(*current).end_ns - 1) : std::nullopt;
  }
  if (unit == StepUnit::iteration) {
    EventFilter ends;
    ends.kind = Kind::step;
    return forward ? events.first_after(at_ns, ends) : events.last_at(at_ns - 1, ends);
  }
  const auto stretch = stretch_at(events, at_ns, unit);
  if (!stretch) return forward ? events.first_after(at_ns) : std::nullopt;
  const auto another = [&](const Event& event) { return !stretch->continues(event); };
  return forward ? find_ahead(events, at_ns, another) : find_back(events, at_ns, another);
}

void move(Document& document, StepUnit unit, bool forward) {
  if (document.events == nullptr) return;
  const std::int64_t from_ns = shown_ns(document);
  const auto to_ns = step_view(*document.events, from_ns, unit, forward);
  if (to_ns) {
    go_to(document, *to_ns);
  } else if (forward) {
    follow(document);
  } else {
    go_to(document, first_ns(*document.events));
  }
}

}  // namespace

std::string_view name(StepUnit unit) {
  switch (unit) {
    case StepUnit::event: return "event";
    case StepUnit::bucket: return "bucket";
    case StepUnit::phase: return "phase";
    case StepUnit::iteration: return "iteration";
  }
  return "unknown";
}

std::optional<std::int64_t> step_view(const EventIndex& events, std::int64_t at_ns, StepUnit unit,
                                      bool forward) {
  const auto id = neighbour(events, at_ns, unit, forward);
  if (!id) return std::nullopt;
  return events.event(*id).end_ns;
}

Change change_between(const EventIndex& events, std::int64_t a_ns, std::int64_t b_ns) {
  Change change;
  change.from_ns = std::min(a_ns, b_ns);
  change.to_ns = change.from_ns;
  events.visit(change.from_ns, std::max(a_ns, b_ns), {}, [&](EventId, const Event& event) {
    change.add(event);
    return true;
  });
  change.to_ns = std::max(a_ns, b_ns);
  return change;
}

std::int64_t shown_ns(const Document& document) {
  if (!document.moment.follow) return document.moment.at_ns;
  return document.events != nullptr ? document.events->range().end_ns : document.moment.at_ns;
}

void go_back(Document& document, StepUnit unit) {
  move(document, unit, false);
}

void go_forward(Document& document, StepUnit unit) {
  if (!document.moment.follow) move(document, unit, true);
}

void go_to(Document& document, std::int64_t at_ns) {
  if (document.events == nullptr) return;
  document.change = change_between(*document.events, shown_ns(document), at_ns);
  document.moment = {false, at_ns};
}

void follow(Document& document) {
  document.moment.follow = true;
  document.moment.at_ns = shown_ns(document);
  document.change = {};
}

void take_over(Document& document) {
  if (document.events == nullptr) return;
  if (document.live != nullptr) document.live->deliver(*document.events);
  if (!document.moment.follow) return;
  document.moment.at_ns = document.events->range().end_ns;
  if (document.live != nullptr) document.change = document.live->last_change();
}

}  // namespace zero1::viz
