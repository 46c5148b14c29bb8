// The timeline: what every rank and stream did, and when.
#include "viz/panels/timeline_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/units.h"
#include "viz/model/event_words.h"
#include "viz/model/first_iteration.h"
#include "viz/panels/draw.h"
#include "viz/panels/input.h"
#include "viz/panels/timeline_details.h"
#include "viz/panels/timeline_strip.h"

namespace zero1::viz {

namespace {

constexpr std::size_t most_arrows_of_all = 250;  // in view, where none is selected
constexpr double counting_ms = 3;                // per frame, of a measured range

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
         "click on the time axis, T  look at that moment, at that of the selected event\n"
         "V  the view follows the run, or pauses\n"
         "[ ]  select the step before, after;  click in the strip  that step\n"
         "Ctrl+F  search;  Enter, F3  the next match;  Shift with it  the one before\n"
         "L  order of causes instead of time;  E  arrows\n"
         "C, click on a rank  fold the selected rank, or the one that is clicked";
}

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
  const bool entered = ImGui::InputTextWithHint("##search", "search  (Ctrl+F)", search_text_.data(),
                                                search_text_.size(), ImGuiInputTextFlags_EnterReturnsTrue);
  if (std::exchange(focus_search_, false)) input::focus_last_item();
  if (entered) {
    search(document, input::shift() ? -1 : 1);
    focus_search_ = true;
  }
  ImGui::SameLine(0, 2);
  if (ImGui::Button("<")) search(document, -1);
  ImGui::SameLine(0, 2);
  if (ImGui::Button(">")) search(document, 1);
  const auto button = [](const char* label) {
    same_line_for(text_size(label).x + 2 * ImGui::GetStyle().FramePadding.x);
    return ImGui::Button(label);
  };
  const auto box = [](const char* label, bool& checked) {
    same_line_for(ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x + text_size(label).x);
    return ImGui::Checkbox(label, &checked);
  };
  if (button("Fit")) fit(document);
  if (button(follows(document) ? "Pause view" : "Follow")) toggle_follow(document);
  bool logical = logical_ != nullptr;
  if (box("order of causes", logical)) toggle_logical(document);
  box("arrows", show_arrows_);
  draw_status(document, theme);
}

void TimelinePanel::draw_status(const Document& document, const Theme& theme) {
  const EventIndex& events = *document.events;
  // What matters comes first: the end is cut where the window is narrow.
  std::string status = modelled_in_view_ ? "link times are modelled; " : "";
  status += event_count(events.size());
  if (events.loading()) status += fmt::format(", {:.0f}% read", 100 * events.progress());
  if (logical_) {
    status +=
        fmt::format("; causes from {:.3f} to {:.3f} ms", static_cast<double>(logical_->when.start_ns) / 1e6,
                    static_cast<double>(logical_->when.end_ns) / 1e6);
    if (!logical_->complete) status += ", the first 100,000";
  }
  if (nothing_found_) status += "; nothing found";
  same_line_for(std::min(7 * ImGui::GetFontSize(), text_size(status).x));
  if (events.dropped() > 0) {
    ImGui::PushStyleColor(ImGuiCol_Text, theme.exposed());
    ImGui::Text("%s dropped", format_count(events.dropped()).c_str());
    ImGui::PopStyleColor();
    ImGui::SameLine();
  }
  text_on_line(theme.faint_text(), status);
}

void TimelinePanel::draw_content(Document& document, const Theme& theme) {
  const float font = ImGui::GetFontSize();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size = ImGui::GetContentRegionAvail();
  label_px_ = std::min(10 * font, size.x / 3);
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

  const auto step =
      draw_step_strip(list, *document.events, theme, strip_, physical_.window(), document.selection.step);
  if (step && ImGui::IsWindowHovered())
    show_step_tooltip(document.events->steps()[*step], *step == 0 && first_prepares(*document.events));
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
