// The timeline: what every rank and stream did, and when.
#include "viz/panels/timeline_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/units.h"
#include "viz/panels/input.h"
#include "viz/panels/timeline_details.h"
#include "viz/panels/timeline_strip.h"

namespace zero1::viz {

namespace {

constexpr double live_span_ns = 2e9;             // of a run that has just begun to be watched
constexpr std::size_t most_arrows_of_all = 250;  // in view, where none is selected
constexpr double counting_ms = 3;                // per frame, of a measured range

float least(float a, float b) {
  return a < b ? a : b;
}

}  // namespace

std::unique_ptr<Panel> make_timeline_panel() {
  return std::make_unique<TimelinePanel>();
}

std::string_view TimelinePanel::help() const {
  return "wheel  zoom at the cursor;  Shift+wheel  scroll\n"
         "drag  pan;  W S A D  zoom in, out, pan\n"
         "click  select an event;  arrow keys  the next event, the row above or below\n"
         "F  show the selected event, then everything;  Home  everything\n"
         "right drag  measure;  M, Shift+M  measure the selected event, and up to it;  Esc  forget it\n"
         "click on the time axis, T  look at that moment, at the selected event's;  P  follow the run, or "
         "pause\n"
         "[ ]  the step before, after;  click in the strip  go to that step\n"
         "Ctrl+F  search;  Enter, N, Shift+N  the next, the one before\n"
         "L  order of causes instead of time;  E  arrows;  click on a rank  fold it";
}

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
  tracks_ = true;
  scroll_px_ = 0;
  seen_selection_ = document.selection.revision;
}

/// Moves the view along with a run, or fits it to a recording that still loads.
void TimelinePanel::move_along(const Document& document) {
  const EventIndex& events = *document.events;
  const bool grows = document.live != nullptr || events.loading();
  const trace::Interval range = events.range();
  if (!touched_) {
    const auto end = static_cast<double>(range.end_ns);
    if (document.live != nullptr && end - static_cast<double>(range.start_ns) > live_span_ns)
      physical_.show(end - live_span_ns, end + 0.03 * live_span_ns);
    else if (grows || fit_revision_ != events.revision())
      physical_.fit(range);
    fit_revision_ = events.revision();
  } else if (document.live != nullptr && tracks_ && document.moment.follow) {
    const double end = static_cast<double>(range.end_ns) + 0.03 * physical_.span_ns();
    physical_.show(end - physical_.span_ns(), end);
  }
}

void TimelinePanel::follow_selection(const Document& document) {
  if (document.selection.revision == seen_selection_) return;
  seen_selection_ = document.selection.revision;
  if (document.selection.event && *document.selection.event < document.events->size())
    bring_into_view(document, *document.selection.event);
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

void TimelinePanel::go_to_step(const Document& document, std::size_t index) {
  const EventIndex::Step& step = document.events->steps()[index];
  touched();
  physical_.fit(step.when);
  if (logical_) order_logically(document, step.when);
}

void TimelinePanel::step_by(const Document& document, int by) {
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
  const trace::Event event = document.events->event(original);
  Selection next;
  next.event = original;
  next.rank = event.rank;
  if (event.bucket >= 0) next.bucket = event.bucket;
  if (event.param >= 0) next.param = event.param;
  if (event.step >= 0) next.step = event.step;
  document.selection.set(next);
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

// ---- drawing ----

void TimelinePanel::draw(Document& document, const Theme& theme) {
  if (document.events == nullptr) {
    ImGui::TextWrapped("%s", document.error.empty() ? "Nothing has been recorded." : document.error.c_str());
    return;
  }
  follow_document(document);
  move_along(document);
  draw_toolbar(document, theme);
  const float font = ImGui::GetFontSize();
  const float statistics_px = statistics_ ? 11 * font : 0;
  const ImVec2 area = ImGui::GetContentRegionAvail();
  constexpr auto flags =
      ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoMove;
  ImGui::BeginChild("lanes", {0, std::max(6 * font, area.y - statistics_px)}, false, flags);
  draw_content(document, theme);
  ImGui::EndChild();
  if (!statistics_) return;
  if (!statistics_->complete()) statistics_->advance(counting_ms);
  ImGui::BeginChild("statistics", {0, 0}, false, ImGuiWindowFlags_NoScrollbar);
  show_statistics(*statistics_, theme);
  ImGui::EndChild();
}

void TimelinePanel::draw_toolbar(Document& document, const Theme& theme) {
  const float font = ImGui::GetFontSize();
  ImGui::SetNextItemWidth(15 * font);
  if (std::exchange(focus_search_, false)) ImGui::SetKeyboardFocusHere();
  if (ImGui::InputTextWithHint("##search", "search  (Ctrl+F)", search_text_.data(), search_text_.size(),
                               ImGuiInputTextFlags_EnterReturnsTrue)) {
    search(document, input::shift() ? -1 : 1);
    focus_search_ = true;
  }
  ImGui::SameLine(0, 2);
  if (ImGui::Button("<")) search(document, -1);
  ImGui::SameLine(0, 2);
  if (ImGui::Button(">")) search(document, 1);
  ImGui::SameLine();
  if (ImGui::Button("Fit")) fit(document);
  ImGui::SameLine();
  if (ImGui::Button(follows(document) ? "Pause view" : "Follow")) toggle_follow(document);
  ImGui::SameLine();
  bool logical = logical_ != nullptr;
  if (ImGui::Checkbox("order of causes", &logical)) toggle_logical(document);
  ImGui::SameLine();
  ImGui::Checkbox("arrows", &show_arrows_);
  ImGui::SameLine();
  draw_status(document, theme);
}

void TimelinePanel::draw_status(const Document& document, const Theme& theme) {
  const EventIndex& events = *document.events;
  std::string status = format_count(events.size()) + " events";
  if (events.loading()) status += fmt::format(", {:.0f}% read", 100 * events.progress());
  if (logical_ && !logical_->complete) status += "; the order of causes ends early: too many events";
  if (nothing_found_) status += "; nothing found";
  if (modelled_in_view_) status += "; durations include a modelled link";
  ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
  ImGui::TextUnformatted(status.c_str());
  ImGui::PopStyleColor();
  if (events.dropped() > 0) {
    ImGui::SameLine();
    ImGui::PushStyleColor(ImGuiCol_Text, theme.exposed());
    ImGui::Text("%s dropped", format_count(events.dropped()).c_str());
    ImGui::PopStyleColor();
  }
}

void TimelinePanel::draw_content(Document& document, const Theme& theme) {
  const float font = ImGui::GetFontSize();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size = ImGui::GetContentRegionAvail();
  label_px_ = least(10 * font, size.x / 3);
  strip_ = {{at.x + label_px_, at.y}, {at.x + size.x, at.y + 1.8F * font}};
  axis_ = {{strip_.min.x, strip_.max.y + 3}, {strip_.max.x, strip_.max.y + 3 + 1.4F * font}};
  lanes_ = {{strip_.min.x, axis_.max.y}, {strip_.max.x, std::max(axis_.max.y + 1, at.y + size.y)}};
  lanes_px_ = lanes_.height();
  physical_.set_width(lanes_.width());
  causes_.set_width(lanes_.width());

  arrange_rows(document);
  follow_selection(document);
  ImGui::SetCursorScreenPos(at);
  handle_input(document);
  arrange_rows(document);  // a rank may have been folded
  shown_view().clamp_to(shown_events(document).range());
  scroll_px_ = std::clamp(scroll_px_, 0.0F, std::max(0.0F, rows_.height - lanes_px_ + font));
  paint(document, theme);
}

void TimelinePanel::arrange_rows(const Document& document) {
  const float font = ImGui::GetFontSize();
  const RowHeights heights{1.35F * font, 0.55F * font, 0.25F * font, 0.8F * font};
  rows_ = TimelineRows(shown_events(document), heights, folded_);
}

void TimelinePanel::paint(Document& document, const Theme& theme) {
  const EventIndex& events = shown_events(document);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  painter_.start_frame(theme);
  TimelineScene scene{document,     theme,  events,    logical_.get(), rows_,
                      shown_view(), lanes_, label_px_, scroll_px_};
  const auto [first, last] = rows_.between(scroll_px_, scroll_px_ + lanes_px_);
  const auto bars = drawing_.draw(events, rows_, first, last, shown_view());
  modelled_in_view_ =
      std::any_of(bars.begin(), bars.end(), [](const TimelineBar& bar) { return bar.look.modelled; });
  scene.measured = measured_;
  if (hovers_lanes_) find_hovered(scene, bars);

  const auto step = draw_step_strip(list, *document.events, theme, strip_, physical_.window());
  if (step && ImGui::IsWindowHovered()) show_step_tooltip(document.events->steps()[*step]);
  hovered_step_ = step;
  list.PushClipRect({lanes_.min.x, axis_.min.y}, lanes_.max, true);
  TimelinePainter::draw_axis(list, scene, axis_);
  list.PopClipRect();
  list.PushClipRect(lanes_.min, lanes_.max, true);
  painter_.draw_lanes(list, scene, bars);
  if (show_arrows_) painter_.draw_arrows(list, scene, arrows_in_view(scene));
  list.PopClipRect();
  list.PushClipRect({lanes_.min.x, axis_.min.y}, lanes_.max, true);
  painter_.draw_marks(list, scene);
  list.PopClipRect();
  painter_.draw_labels(list, scene);
}

/// The event under the mouse, with its tooltip.
void TimelinePanel::find_hovered(TimelineScene& scene, std::span<const TimelineBar> bars) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const int row = rows_.row_at(mouse.y - lanes_.min.y + scroll_px_);
  hovered_ = -1;
  if (row < 0) return;
  const double x = mouse.x - lanes_.min.x;
  hovered_ = event_at(scene.events, *rows_.rows[static_cast<std::size_t>(row)].row, shown_view(), x, 3);
  if (hovered_ < 0) return;
  const auto merged = std::find_if(bars.begin(), bars.end(), [&](const TimelineBar& bar) {
    return bar.row == row && bar.count > 1 && bar.x0 - 1 <= x && x <= bar.x1 + 1;
  });
  if (merged != bars.end()) return show_merged_tooltip(scene.document, scene.theme, *merged);
  scene.hovered = hovered_;
  show_event_tooltip(scene.document, scene.theme, scene.original(hovered_));
}

/// Those of the selected or hovered event's bucket; all of them where they are few.
std::span<const FlowArrow> TimelinePanel::arrows_in_view(const TimelineScene& scene) {
  const Selection& selection = scene.document.selection;
  ArrowsKey key;
  key.events_revision = scene.document.events->revision();
  if (selection.event || selection.bucket) {
    key.bucket = selection.bucket;
    if (selection.event) key.rank = selection.rank;
  }
  if (scene.hovered >= 0) {
    const trace::Event event = scene.events.event(scene.hovered);
    if (event.bucket >= 0) {
      key.bucket = event.bucket;
      key.rank = event.rank;
    }
  }
  const trace::Interval window = logical_ ? logical_->when : physical_.window();
  key.window = with_whole_steps(*scene.document.events, window);
  if (!arrows_.known || !(arrows_.key == key)) {
    arrows_.key = key;
    arrows_.known = true;
    auto found = find_arrows(*scene.document.events, key.window, key.rank, key.bucket);
    arrows_.all = found ? std::move(*found) : std::vector<FlowArrow>();
  }
  arrows_.visible.clear();
  for (const FlowArrow& arrow : arrows_.all) {
    const bool outside = !logical_ && (arrow.to_ns < window.start_ns || arrow.from_ns > window.end_ns);
    if (!outside) arrows_.visible.push_back(arrow);
  }
  if (!key.bucket && arrows_.visible.size() > most_arrows_of_all) return {};
  return arrows_.visible;
}

}  // namespace zero1::viz
