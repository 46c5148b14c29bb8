// Every event, in order of time, filtered.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/units.h"
#include "viz/model/event_index.h"
#include "viz/model/event_list.h"
#include "viz/model/event_words.h"
#include "viz/model/history.h"
#include "viz/model/live_run.h"
#include "viz/model/select_event.h"
#include "viz/panels/draw.h"
#include "viz/panels/panel.h"
#include "viz/panels/row_scroll.h"

namespace zero1::viz {

namespace {

constexpr ImGuiTableFlags table_flags =
    ImGuiTableFlags_RowBg | ImGuiTableFlags_Resizable | ImGuiTableFlags_SizingFixedFit;
constexpr auto last_kind = static_cast<int>(trace::Kind::memory);

class LogPanel final : public Panel {
 public:
  std::string_view title() const override { return "Event log"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "type  words that must occur: reduce-scatter, ln_2.bias\n"
           "click  select the event everywhere;  double click  show that moment\n"
           "wheel, Page up, Page down  scroll;  right click  break there";
  }

 private:
  void draw_filter(const Document& document);
  void draw_rows(Document& document, const Theme& theme);
  void draw_row(Document& document, const Theme& theme, EventId id);
  void follow(const Document& document, std::int64_t visible);

  EventList list_;
  RowScroll scroll_;
  bool steps_shown_ = true;
  std::array<char, 128> text_{};
  int kind_ = 0;  ///< Kind::none: any
  int rank_ = -1;
  int bucket_ = -1;
  std::uint64_t seen_selection_ = 0;
  std::int64_t seen_moment_ns_ = -1;
  std::int64_t seen_size_ = 0;
};

constexpr float number_ems = 6;

float number_px(const char* label) {
  return number_ems * ImGui::GetFontSize() + ImGui::GetStyle().ItemInnerSpacing.x + text_size(label).x;
}

/// A number of which -1 is "any".
void number(const char* label, int& value, int largest) {
  ImGui::SetNextItemWidth(number_ems * ImGui::GetFontSize());
  ImGui::InputInt(label, &value);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("only this %s; -1: any", label);
  value = std::clamp(value, -1, largest);
}

void LogPanel::draw(Document& document, const Theme& theme) {
  if (document.events == nullptr) {
    ImGui::TextWrapped("No run and no recording: there are no events.");
    return;
  }
  list_.show(*document.events, document.info);
  draw_filter(document);
  const bool complete = list_.update();
  const std::string count = fmt::format("{} events{}", format_count(list_.size()), complete ? "" : " …");
  same_line_for(text_size(count).x);
  ImGui::TextUnformatted(count.c_str());
  draw_rows(document, theme);
}

void LogPanel::draw_filter(const Document& document) {
  const float font = ImGui::GetFontSize();
  ImGui::SetNextItemWidth(12 * font);
  ImGui::InputTextWithHint("##text", "words", text_.data(), text_.size());
  same_line_for(9 * font);
  ImGui::SetNextItemWidth(9 * font);
  const auto label = [](int kind) {
    return kind == 0 ? std::string("any kind") : std::string(name(static_cast<trace::Kind>(kind)));
  };
  if (ImGui::BeginCombo("##kind", label(kind_).c_str())) {
    for (int kind = 0; kind <= last_kind; ++kind) {
      if (kind > 0 && label(kind) == "unknown") continue;
      if (ImGui::Selectable(label(kind).c_str(), kind == kind_)) kind_ = kind;
    }
    ImGui::EndCombo();
  }
  same_line_for(number_px("rank"));
  number("rank", rank_, document.info.ranks - 1);
  same_line_for(number_px("bucket"));
  number("bucket", bucket_, std::max(-1, static_cast<int>(document.info.buckets.size()) - 1));
  ListFilter filter;
  filter.text = text_.data();
  if (kind_ > 0) filter.fields.kind = static_cast<trace::Kind>(kind_);
  if (rank_ >= 0) filter.fields.rank = rank_;
  if (bucket_ >= 0) filter.fields.bucket = bucket_;
  list_.set_filter(std::move(filter));
}

void LogPanel::draw_rows(Document& document, const Theme& theme) {
  const float font = ImGui::GetFontSize();
  const float row_px = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const float room_px = ImGui::GetContentRegionAvail().y;
  const auto visible = std::max<std::int64_t>(1, static_cast<std::int64_t>(room_px / row_px) - 1);
  follow(document, visible);
  scroll_.draw(list_.size(), visible);
  const ImVec2 table{std::max(10 * font, ImGui::GetContentRegionAvail().x - RowScroll::width_px()), room_px};
  // Narrow, it leaves out what the tooltip tells too.
  steps_shown_ = table.x > 30 * font;
  if (!ImGui::BeginTable(steps_shown_ ? "wide" : "narrow", steps_shown_ ? 5 : 4, table_flags, table)) return;
  ImGui::TableSetupColumn("end, ms", ImGuiTableColumnFlags_WidthFixed, 4.8F * font);
  ImGui::TableSetupColumn("rank", ImGuiTableColumnFlags_WidthFixed, 2.2F * font);
  if (steps_shown_) ImGui::TableSetupColumn("step", ImGuiTableColumnFlags_WidthFixed, 2.2F * font);
  ImGui::TableSetupColumn("event", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableSetupColumn("took", ImGuiTableColumnFlags_WidthFixed, 4.3F * font);
  ImGui::TableHeadersRow();
  for (std::int64_t row = scroll_.first(); row < std::min(list_.size(), scroll_.first() + visible); ++row)
    draw_row(document, theme, list_.row(row));
  ImGui::EndTable();
}

void LogPanel::draw_row(Document& document, const Theme& theme, EventId id) {
  const trace::Event event = document.events->event(id);
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const bool chosen = document.selection.event == id;
  const bool later = !document.moment.follow && event.end_ns > document.moment.at_ns;
  const bool changed = document.change.contains(event);
  ImGui::PushStyleColor(ImGuiCol_Text, later ? theme.faint_text() : changed ? theme.changed() : theme.text());
  const std::string time = fmt::format("{:.3f}###{}", static_cast<double>(event.end_ns) * 1e-6, id);
  if (ImGui::Selectable(time.c_str(), chosen,
                        ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick)) {
    document.selection.set(select_event(id, event));
    seen_selection_ = document.selection.revision;  // it is on screen already
    if (ImGui::IsMouseDoubleClicked(0)) {
      go_to(document, event.end_ns);
      seen_moment_ns_ = event.end_ns;
    }
  }
  if (ImGui::IsItemHovered()) {
    const std::string moment = when(event);
    ImGui::SetTooltip("%s%s%s", what(event, document.info).c_str(), moment.empty() ? "" : "\n",
                      moment.c_str());
  }
  if (document.live != nullptr && ImGui::BeginPopupContextItem()) {
    const trace::Breakpoint where = breakpoint_at(event);
    if (ImGui::MenuItem(("Break " + describe(where, document.info)).c_str())) {
      Breakpoints breakpoints = document.live->breakpoints();
      breakpoints.add(where);
      document.live->set_breakpoints(std::move(breakpoints));
    }
    ImGui::EndPopup();
  }
  ImGui::TableNextColumn();
  ImGui::Text("%d", event.rank);
  ImGui::TableNextColumn();
  if (steps_shown_) {
    if (event.step >= 0) ImGui::Text("%d", event.step);
    ImGui::TableNextColumn();
  }
  ImGui::TextUnformatted(what(event, document.info).c_str());
  ImGui::TableNextColumn();
  if (event.end_ns > event.begin_ns)
    ImGui::TextUnformatted(format_duration_ns(event.end_ns - event.begin_ns).c_str());
  ImGui::PopStyleColor();
}

/// To the newest while following, to the moment that the view went to, and to what was selected elsewhere.
void LogPanel::follow(const Document& document, std::int64_t visible) {
  std::int64_t row = -1;
  if (document.selection.revision != seen_selection_) {
    seen_selection_ = document.selection.revision;
    if (document.selection.event && *document.selection.event < document.events->size()) {
      row = list_.row_at(document.events->event(*document.selection.event).end_ns);
    }
  } else if (!document.moment.follow) {
    if (document.moment.at_ns != seen_moment_ns_) row = list_.row_at(document.moment.at_ns);
    seen_moment_ns_ = document.moment.at_ns;
  } else if (list_.size() != seen_size_ && scroll_.at_end()) {
    row = list_.size() - 1;  // whoever has scrolled up stays there
  }
  seen_size_ = list_.size();
  if (row >= 0) scroll_.show(row, visible);
}

}  // namespace

std::unique_ptr<Panel> make_log_panel() {
  return std::make_unique<LogPanel>();
}

}  // namespace zero1::viz
