// Where the timeline's view goes, and what gets selected.
#include <algorithm>
#include <cmath>
#include <utility>

#include "viz/model/first_iteration.h"
#include "viz/model/select_event.h"
#include "viz/panels/timeline_panel.h"

namespace zero1::viz {

namespace {

constexpr double opening_margin = 0.1;  // of an iteration, on both sides
constexpr double live_span_ns = 2e9;    // of a run that has just begun to be watched

}  // namespace

// ---- what is shown ----

const EventIndex& TimelinePanel::shown_events(const Document& document) const {
  return logical_ ? *logical_->events : *document.events;
}

void TimelinePanel::follow_document(const Document& document) {
  if (document.events == seen_events_) return;
  statistics_.reset();  // refers to the events before
  seen_events_ = document.events;
  physical_ = TimeView();
  logical_.reset();
  arrows_ = {};
  measured_.reset();
  search_.reset();
  touched_ = false;
  opening_ = true;
  tracks_ = true;
  scroll_px_ = 0;
  seen_selection_ = 0;
}

/// Moves the view along with a run, or fits it to what is worth showing of a recording that still loads.
void TimelinePanel::move_along(const Document& document) {
  const EventIndex& events = *document.events;
  if (document.moment.follow && !followed_) tracks_ = true;
  followed_ = document.moment.follow;
  const bool grows = document.live != nullptr || events.loading();
  const trace::Interval range = events.range();
  if (!touched_) {
    const auto end = static_cast<double>(range.end_ns);
    if (document.live != nullptr && end - static_cast<double>(range.start_ns) > live_span_ns)
      physical_.show(end - live_span_ns, end + 0.03 * live_span_ns);
    else if (grows || fit_revision_ != events.revision())
      physical_.fit(worth_showing(events, document.live != nullptr));
    fit_revision_ = events.revision();
  } else if (document.live != nullptr && tracks_ && document.moment.follow) {
    const double end = static_cast<double>(range.end_ns) + 0.03 * physical_.span_ns();
    physical_.show(end - physical_.span_ns(), end);
  }
}

void TimelinePanel::follow_selection(const Document& document) {
  const bool opening = std::exchange(opening_, false);
  if (document.selection.revision == seen_selection_) return;
  const Selection& selection = document.selection;
  const bool known = !selection.event || *selection.event < document.events->size();
  const EventIndex::Step* step = selection.step ? document.events->find_step(*selection.step) : nullptr;
  // What a recording that still loads does not have yet may come.
  if (document.events->loading() && (!known || (selection.step && step == nullptr))) {
    opening_ = opening;
    return;
  }
  seen_selection_ = selection.revision;
  if (selection.event && known) {
    if (opening) show_iteration_of(document, *selection.event);
    return bring_into_view(document, *selection.event);
  }
  if (selection.event) return;
  // With a step selected already, choosing a rank or a bucket leaves the view where it is.
  const bool others_changed = selection.rank != seen_.rank || selection.bucket != seen_.bucket ||
                              selection.param != seen_.param || selection.element != seen_.element;
  if (step != nullptr && (selection.step != seen_.step || !others_changed)) show_step(document, *step);
  seen_ = selection;
  if (selection.rank) bring_rank_into_view(*selection.rank);
}

/// The first lanes of it.
void TimelinePanel::bring_rank_into_view(int rank) {
  for (const TimelineLane& lane : rows_.lanes) {
    if (lane.rank != rank || !lane.starts_rank) continue;
    if (lane.y0 < scroll_px_ || lane.y1 > scroll_px_ + lanes_px_) scroll_px_ = lane.y0;
    return;
  }
}

void TimelinePanel::toggle_folded(int rank) {
  if (!folded_.erase(rank)) folded_.insert(rank);
}

/// What a document was opened at, with its iteration around it.
void TimelinePanel::show_iteration_of(const Document& document, EventId original) {
  const trace::Event event = document.events->event(original);
  trace::Interval when{event.begin_ns, event.end_ns};
  if (const EventIndex::Step* step = document.events->find_step(event.step); step != nullptr)
    when = {std::min(when.start_ns, step->when.start_ns), std::max(when.end_ns, step->when.end_ns)};
  const auto start = static_cast<double>(when.start_ns), end = static_cast<double>(when.end_ns);
  const double margin = opening_margin * (end - start);
  physical_.show(start - margin, end + margin);
  touched();
}

void TimelinePanel::bring_into_view(const Document& document, EventId original) {
  EventId shown = original;
  if (logical_) {
    shown = logical_->number_of(original);
    if (shown < 0) {
      order_logically(document,
                      {document.events->event(original).begin_ns, document.events->event(original).end_ns});
      shown = logical_->number_of(original);
    }
    if (shown < 0) return;
  }
  const EventIndex& events = shown_events(document);
  const trace::Event event = events.event(shown);
  TimeView& view = this->shown_view();
  const double begin = static_cast<double>(event.begin_ns), end = static_cast<double>(event.end_ns);
  if (end < view.start_ns() || begin > view.end_ns()) {
    if (end - begin > view.span_ns())
      view.fit({event.begin_ns, event.end_ns});
    else
      view.centre_on((begin + end) / 2);
    touched();
  }
  const int row = rows_.row_of(events, shown);
  if (row < 0) return;
  const TimelineRow& place = rows_.rows[static_cast<std::size_t>(row)];
  if (place.y0 < scroll_px_) scroll_px_ = place.y0;
  if (place.y1 > scroll_px_ + lanes_px_) scroll_px_ = place.y1 - lanes_px_;
}

void TimelinePanel::order_logically(const Document& document, trace::Interval window) {
  logical_ = std::make_unique<LogicalOrder>(
      logical_order(*document.events, with_whole_steps(*document.events, window)));
  causes_.set_width(physical_.width_px());
  causes_.fit(logical_->events->range());
  arrange_rows(document);
}

void TimelinePanel::toggle_logical(const Document& document) {
  measured_.reset();
  statistics_.reset();
  if (logical_) {
    logical_.reset();
    arrange_rows(document);
  } else {
    order_logically(document, physical_.window());
  }
}

void TimelinePanel::go_to_step(Document& document, std::size_t index) {
  const EventIndex::Step& step = document.events->steps()[index];
  show_step(document, step);
  Selection next = document.selection;
  next.step = step.step;
  next.event.reset();
  document.selection.set(next);
  seen_selection_ = document.selection.revision;
  seen_ = document.selection;
}

void TimelinePanel::show_step(const Document& document, const EventIndex::Step& step) {
  touched();
  physical_.fit(step.when);
  if (logical_) order_logically(document, step.when);
}

void TimelinePanel::step_by(Document& document, int by) {
  const auto steps = document.events->steps();
  if (steps.empty()) return;
  const double middle = physical_.start_ns() + physical_.span_ns() / 2;
  std::size_t current = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (static_cast<double>(steps[i].when.start_ns) <= middle) current = i;
  }
  const auto wanted = std::clamp<std::int64_t>(static_cast<std::int64_t>(current) + by, 0,
                                               static_cast<std::int64_t>(steps.size()) - 1);
  go_to_step(document, static_cast<std::size_t>(wanted));
}

void TimelinePanel::fit(const Document& document) {
  const Selection& selection = document.selection;
  const EventIndex& events = shown_events(document);
  EventId shown = selection.event.value_or(-1);
  if (logical_ && shown >= 0) shown = logical_->number_of(shown);
  if (shown >= 0 && shown < events.size()) {
    const trace::Event event = events.event(shown);
    TimeView fitted = shown_view();
    fitted.fit({event.begin_ns, event.end_ns});
    // A second time: everything.
    if (std::abs(fitted.span_ns() - shown_view().span_ns()) > 1e-6 * fitted.span_ns()) {
      shown_view() = fitted;
      touched();
      return;
    }
  }
  fit_all(document);
}

void TimelinePanel::fit_all(const Document& document) {
  shown_view().fit(shown_events(document).range());
  touched();
}

void TimelinePanel::touched() {
  touched_ = true;
  tracks_ = false;
}

void TimelinePanel::toggle_follow(Document& document) {
  if (follows(document)) {
    document.moment.follow = false;
    document.moment.at_ns = document.events->range().end_ns;
    tracks_ = false;
  } else {
    document.moment.follow = true;
    document.moment.at_ns = document.events->range().end_ns;
    tracks_ = true;
  }
}

// ---- selecting ----

void TimelinePanel::select(Document& document, EventId original) {
  document.selection.set(select_event(original, document.events->event(original)));
  seen_selection_ = document.selection.revision;
}

void TimelinePanel::select_neighbour(Document& document, int by) {
  const EventIndex& events = shown_events(document);
  EventId shown = selected_shown(document);
  if (shown < 0) return select_first_in_view(document);
  const int row = rows_.row_of(events, shown);
  if (row < 0) return;
  const TimeList& list = rows_.rows[static_cast<std::size_t>(row)].row->events();
  list.sort(events.store());
  const std::int64_t behind = list.after(events.store(), events.store().end_ns(shown), shown);
  const std::int64_t wanted = by > 0 ? behind : behind - 2;
  if (wanted < 0 || wanted >= list.size()) return;
  const EventId found = original(list.at(wanted));
  select(document, found);
  bring_into_view(document, found);
}

void TimelinePanel::select_row(Document& document, int by) {
  const EventIndex& events = shown_events(document);
  const EventId shown = selected_shown(document);
  if (shown < 0) return select_first_in_view(document);
  const trace::Event event = events.event(shown);
  const double middle =
      shown_view().x_of((static_cast<double>(event.begin_ns) + static_cast<double>(event.end_ns)) / 2);
  for (int row = rows_.row_of(events, shown) + by; row >= 0 && row < static_cast<int>(rows_.rows.size());
       row += by) {
    const EventId found =
        event_at(events, *rows_.rows[static_cast<std::size_t>(row)].row, shown_view(), middle, 40);
    if (found < 0) continue;
    select(document, original(found));
    bring_into_view(document, original(found));
    return;
  }
}

void TimelinePanel::select_first_in_view(Document& document) {
  const EventIndex& events = shown_events(document);
  for (const TimelineRow& row : rows_.rows) {
    row.row->events().sort(events.store());
    const std::int64_t index =
        row.row->events().after(events.store(), shown_view().window().start_ns, INT64_MAX);
    if (index >= row.row->events().size()) continue;
    return select(document, original(row.row->events().at(index)));
  }
}

EventId TimelinePanel::selected_shown(const Document& document) const {
  const EventId selected = document.selection.event.value_or(-1);
  if (selected < 0 || selected >= document.events->size()) return -1;
  return logical_ ? logical_->number_of(selected) : selected;
}

EventId TimelinePanel::original(EventId shown) const {
  return logical_ ? logical_->originals[static_cast<std::size_t>(shown)] : shown;
}

void TimelinePanel::search(Document& document, int by) {
  if (search_text_ != searched_text_ || !search_) {
    searched_text_ = search_text_;
    search_ = std::make_unique<EventSearch>(search_text_.data(), document.info);
  }
  const EventId from = document.selection.event.value_or(-1);
  const auto found =
      by > 0 ? search_->next(*document.events, from) : search_->previous(*document.events, from);
  nothing_found_ = !found && !search_->empty();
  if (!found) return;
  select(document, *found);
  bring_into_view(document, *found);
}

}  // namespace zero1::viz
