// The timeline's mouse and keys.
#include <algorithm>
#include <cmath>

#include "viz/panels/input.h"
#include "viz/panels/timeline_panel.h"

namespace zero1::viz {

namespace {

constexpr double span_per_notch = 0.8;  // of the span, per notch
constexpr double keys_zoom = 3;         // times per second
constexpr double keys_pan = 1.2;        // views per second
constexpr float drag_px = 4;            // what moves less is a click

bool inside(const Box& box, ImVec2 at) {
  return at.x >= box.min.x && at.x < box.max.x && at.y >= box.min.y && at.y < box.max.y;
}

bool moved(ImVec2 from, ImVec2 to) {
  return std::hypot(to.x - from.x, to.y - from.y) >= drag_px;
}

}  // namespace

void TimelinePanel::handle_input(Document& document) {
  const ImVec2 at{lanes_.min.x - label_px_, strip_.min.y};
  // One item over everything, so that a drag moves the view and not the window.
  ImGui::SetCursorScreenPos(at);
  ImGui::InvisibleButton("input", {std::max(1.0F, lanes_.max.x - at.x), std::max(1.0F, lanes_.max.y - at.y)},
                         ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
  const bool hovers = ImGui::IsItemHovered();
  hovers_lanes_ =
      hovers && inside(lanes_, ImGui::GetIO().MousePos) && !ImGui::IsMouseDown(0) && !ImGui::IsMouseDown(1);
  if (!hovers_lanes_) hovered_ = -1;
  if (hovers) handle_mouse(document);
  if (ImGui::IsItemActive() || ImGui::IsItemDeactivated()) handle_drag(document);
  if (ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows)) handle_keys(document);
}

void TimelinePanel::handle_mouse(Document&) {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.MouseWheel == 0) return;
  if (input::shift() || io.MousePos.x < lanes_.min.x) {
    scroll_px_ -= io.MouseWheel * 3 * ImGui::GetFontSize();
    return;
  }
  shown_view().zoom_at(io.MousePos.x - lanes_.min.x, std::pow(span_per_notch, io.MouseWheel));
  touched();
}

void TimelinePanel::handle_drag(Document& document) {
  const ImGuiIO& io = ImGui::GetIO();
  for (const int button : {0, 1}) {
    if (ImGui::IsMouseClicked(button)) {
      pressed_at_ = io.MousePos;
      dragged_ = false;
    }
  }
  dragged_ = dragged_ || moved(pressed_at_, io.MousePos);
  const bool in_lanes = inside(lanes_, pressed_at_);
  if (ImGui::IsMouseDown(0) && dragged_ && in_lanes) {
    shown_view().pan_px(-io.MouseDelta.x);
    scroll_px_ -= io.MouseDelta.y;
    if (io.MouseDelta.x != 0) touched();
  }
  if (ImGui::IsMouseDown(0) && inside(axis_, pressed_at_))
    set_moment(document, shown_view().ns_at(io.MousePos.x - lanes_.min.x));
  if (ImGui::IsMouseDown(1) && dragged_ && in_lanes) {
    const double a = shown_view().ns_at(pressed_at_.x - lanes_.min.x),
                 b = shown_view().ns_at(io.MousePos.x - lanes_.min.x);
    measured_ = {TimeView::to_ns(std::min(a, b)), TimeView::to_ns(std::max(a, b))};
  }
  if (ImGui::IsMouseReleased(1) && in_lanes) {
    if (dragged_ && measured_)
      measure(document, *measured_);
    else {
      measured_.reset();
      statistics_.reset();
    }
  }
  if (ImGui::IsMouseReleased(0) && !dragged_) handle_click(document, io.MousePos);
}

void TimelinePanel::handle_click(Document& document, ImVec2 mouse) {
  if (inside(strip_, mouse)) {
    if (hovered_step_) go_to_step(document, *hovered_step_);
    return;
  }
  const float row_y = mouse.y - lanes_.min.y + scroll_px_;
  if (mouse.y >= lanes_.min.y && mouse.x < lanes_.min.x) {
    for (const TimelineLane& lane : rows_.lanes) {
      if (row_y < lane.y0 || row_y >= lane.y1) continue;
      return toggle_folded(lane.rank);
    }
  }
  if (!inside(lanes_, mouse)) return;
  const int row = rows_.row_at(row_y);
  const EventId found = row < 0
                            ? -1
                            : event_at(shown_events(document), *rows_.rows[static_cast<std::size_t>(row)].row,
                                       shown_view(), mouse.x - lanes_.min.x, 3);
  if (found >= 0)
    select(document, original(found));
  else
    document.selection.clear();
}

void TimelinePanel::handle_keys(Document& document) {
  if (input::ctrl() && input::pressed('F')) focus_search_ = true;
  if (input::function_key_pressed(3)) search(document, input::shift() ? -1 : 1);
  if (!input::letters_free()) return;
  handle_moving_keys();
  if (input::pressed(ImGuiKey_LeftArrow, true)) select_neighbour(document, -1);
  if (input::pressed(ImGuiKey_RightArrow, true)) select_neighbour(document, 1);
  if (input::pressed(ImGuiKey_UpArrow, true)) select_row(document, -1);
  if (input::pressed(ImGuiKey_DownArrow, true)) select_row(document, 1);
  if (input::pressed(ImGuiKey_PageUp, true)) scroll_px_ -= lanes_px_ * 0.8F;
  if (input::pressed(ImGuiKey_PageDown, true)) scroll_px_ += lanes_px_ * 0.8F;
  if (input::pressed(ImGuiKey_Home)) fit_all(document);
  if (input::pressed('F')) fit(document);
  if (input::pressed('L')) toggle_logical(document);
  if (input::pressed('C') && document.selection.rank) toggle_folded(*document.selection.rank);
  if (input::pressed('E')) show_arrows_ = !show_arrows_;
  if (input::pressed('V')) toggle_follow(document);
  if (input::pressed(ImGuiKey_End)) tracks_ = true;  // everywhere: follow the run again
  if (input::pressed('[', true)) step_by(document, -1);
  if (input::pressed(']', true)) step_by(document, 1);
  if (input::pressed('M')) measure_selected(document, input::shift());
  const EventId selected = selected_shown(document);
  if (input::pressed('T') && selected >= 0)
    set_moment(document, static_cast<double>(shown_events(document).event(selected).end_ns));
  if (input::pressed(ImGuiKey_Escape)) {
    measured_.reset();
    statistics_.reset();
  }
}

void TimelinePanel::handle_moving_keys() {
  const ImGuiIO& io = ImGui::GetIO();
  const double seconds = std::min(static_cast<double>(io.DeltaTime), 0.1);
  const double cursor = hovers_lanes_ ? io.MousePos.x - lanes_.min.x : shown_view().width_px() / 2;
  const auto down = [](char key) { return input::down(key) ? 1 : 0; };
  const int zoom = down('S') - down('W'), pan = down('D') - down('A');
  if (zoom != 0) shown_view().zoom_at(cursor, std::pow(keys_zoom, zoom * seconds));
  if (pan != 0) shown_view().pan_px(pan * seconds * keys_pan * shown_view().width_px());
  if (zoom != 0 || pan != 0) touched();
}

void TimelinePanel::measure(const Document& document, trace::Interval range) {
  measured_ = range;
  statistics_.reset();
  if (!logical_) statistics_ = std::make_unique<RangeStatistics>(*document.events, range);
}

void TimelinePanel::measure_selected(const Document& document, bool extend) {
  const EventId selected = selected_shown(document);
  if (selected < 0) return;
  const trace::Event event = shown_events(document).event(selected);
  trace::Interval range{event.begin_ns, event.end_ns};
  if (extend && measured_)
    range = {std::min(range.start_ns, measured_->start_ns), std::max(range.end_ns, measured_->end_ns)};
  measure(document, range);
}

/// `at_ns` is a time of what is shown.
void TimelinePanel::set_moment(Document& document, double at_ns) {
  std::int64_t at = TimeView::to_ns(at_ns);
  if (logical_) {
    const auto last = logical_->events->last_at(at);
    if (!last) return;
    at = document.events->event(original(*last)).end_ns;
  }
  document.moment.follow = false;
  document.moment.at_ns = at;
}

}  // namespace zero1::viz
