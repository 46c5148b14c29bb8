// Every event, in order of time, filtered.
#include <fmt/format.h>

#include <array>

#include "core/base/units.h"
#include "viz/model/event_index.h"
#include "viz/model/event_list.h"
#include "viz/model/event_words.h"
#include "viz/model/history.h"
#include "viz/model/live_run.h"
#include "viz/model/select_event.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

constexpr ImGuiTableFlags table_flags = ImGuiTableFlags_RowBg | ImGuiTableFlags_ScrollY |
                                        ImGuiTableFlags_Resizable | ImGuiTableFlags_SizingFixedFit;
constexpr auto last_kind = static_cast<int>(trace::Kind::memory);

class LogPanel final : public Panel {
 public:
  std::string_view title() const override { return "Event log"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "type  words that must occur: reduce-scatter, ln_2.bias\n"
           "click  select the event everywhere;  double click  show that moment\n"
           "right click  break there";
  }

 private:
  void draw_filter(const Document& document);
  void draw_rows(Document& document, const Theme& theme);
  void draw_row(Document& document, const Theme& theme, EventId id);
  void scroll(const Document& document);

  EventList list_;
  std::array<char, 128> text_{};
  int kind_ = 0;  ///< Kind::none: any
  int rank_ = -1;
  int bucket_ = -1;
  std::uint64_t seen_selection_ = 0;
  std::int64_t seen_moment_ns_ = -1;
  std::int64_t seen_size_ = 0;
};

/// A number of which -1 is "any".
bool number(const char* label, int& value, int largest) {
  ImGui::SetNextItemWidth(5.5F * ImGui::GetFontSize());
  const bool changed = ImGui::InputInt(label, &value);
  value = std::clamp(value, -1, largest);
  return changed;
}

void LogPanel::draw(Document& document, const Theme& theme) {
  if (document.events == nullptr) {
    ImGui::TextWrapped("No run and no recording: there are no events.");
    return;
  }
  list_.show(*document.events, document.info);
  draw_filter(document);
  const bool complete = list_.update();
  ImGui::SameLine();
  ImGui::TextUnformatted(fmt::format("{}{}", format_count(list_.size()), complete ? "" : " …").c_str());
  draw_rows(document, theme);
}

void LogPanel::draw_filter(const Document& document) {
  ImGui::SetNextItemWidth(12 * ImGui::GetFontSize());
  ImGui::InputTextWithHint("##text", "words", text_.data(), text_.size());
  ImGui::SameLine();
  ImGui::SetNextItemWidth(9 * ImGui::GetFontSize());
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
  ImGui::SameLine();
  number("rank", rank_, document.info.ranks - 1);
  ImGui::SameLine();
  number("bucket", bucket_, std::max(-1, static_cast<int>(document.info.buckets.size()) - 1));
  ListFilter filter;
  filter.text = text_.data();
  if (kind_ > 0) filter.fields.kind = static_cast<trace::Kind>(kind_);
  if (rank_ >= 0) filter.fields.rank = rank_;
  if (bucket_ >= 0) filter.fields.bucket = bucket_;
  list_.set_filter(std::move(filter));
}

void LogPanel::draw_rows(Document& document, const Theme& theme) {
  if (!ImGui::BeginTable("log", 5, table_flags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("end, ms");
  ImGui::TableSetupColumn("rank");
  ImGui::TableSetupColumn("event", ImGuiTableColumnFlags_WidthFixed, 24 * ImGui::GetFontSize());
  ImGui::TableSetupColumn("took");
  ImGui::TableSetupColumn("when");
  ImGui::TableHeadersRow();
  scroll(document);
  ImGuiListClipper clipper;
  clipper.Begin(static_cast<int>(std::min<std::int64_t>(list_.size(), INT32_MAX)));
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) draw_row(document, theme, list_.row(i));
  }
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
  ImGui::TextUnformatted(what(event, document.info).c_str());
  ImGui::TableNextColumn();
  if (event.end_ns > event.begin_ns)
    ImGui::TextUnformatted(format_duration_ns(event.end_ns - event.begin_ns).c_str());
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(when(event).c_str());
  ImGui::PopStyleColor();
}

/// To the newest while following, to the moment that the view went to, and to what was selected elsewhere.
void LogPanel::scroll(const Document& document) {
  std::int64_t row = -1;
  if (document.selection.revision != seen_selection_) {
    seen_selection_ = document.selection.revision;
    if (document.selection.event && *document.selection.event < document.events->size()) {
      row = list_.row_at(document.events->event(*document.selection.event).end_ns);
    }
  } else if (!document.moment.follow) {
    if (document.moment.at_ns != seen_moment_ns_) row = list_.row_at(document.moment.at_ns);
    seen_moment_ns_ = document.moment.at_ns;
  } else if (list_.size() != seen_size_ && ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1) {
    row = list_.size() - 1;  // whoever has scrolled up stays there
  }
  seen_size_ = list_.size();
  if (row < 0) return;
  const float line = ImGui::GetTextLineHeightWithSpacing();
  ImGui::SetScrollY(std::max(0.0F, static_cast<float>(row) * line - ImGui::GetWindowHeight() / 2));
}

}  // namespace

std::unique_ptr<Panel> make_log_panel() {
  return std::make_unique<LogPanel>();
}

}  // namespace zero1::viz
