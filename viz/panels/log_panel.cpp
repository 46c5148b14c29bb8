// Every event, in order of time, filtered.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/base/units.h"
#include "viz/model/event_index.h"
#include "viz/model/event_list.h"
#include "viz/model/event_words.h"
#include "viz/model/history.h"
#include "viz/model/live_run.h"
#include "viz/model/select_event.h"
#include "viz/panels/breakpoint_list.h"
#include "viz/panels/draw.h"
#include "viz/panels/input.h"
#include "viz/panels/panel.h"
#include "viz/panels/row_scroll.h"

namespace zero1::viz {

namespace {

constexpr ImGuiTableFlags log_table_flags =
    ImGuiTableFlags_RowBg | ImGuiTableFlags_Resizable | ImGuiTableFlags_SizingFixedFit;
constexpr auto last_kind = static_cast<int>(trace::Kind::memory);

class LogPanel final : public Panel {
 public:
  std::string_view title() const override { return "Event log"; }
  void draw(Document& document, const Theme& theme) override;
  bool searches() const override { return true; }
  bool unfinished() const override { return unfinished_; }
  std::string_view help() const override {
    return "/  words that must occur: reduce-scatter, ln_2.bias; Enter leads back to the rows\n"
           "click, Up, Down  select the event everywhere;  double click, Enter  show that moment\n"
           "wheel, Page up, Page down, Home  scroll\n"
           "right click, Shift+F10, menu key  break there";
  }

 private:
  void draw_filter(const Document& document);
  void draw_rows(Document& document, const Theme& theme);
  void draw_table(Document& document, const Theme& theme, std::int64_t visible);
  void draw_row(Document& document, const Theme& theme, EventId id);
  void open_menu(EventId id) {
    menu_event_ = id;
    opens_menu_ = true;
    menu_at_.reset();
  }
  void draw_menu(Document& document);
  void follow(const Document& document, std::int64_t visible);
  std::int64_t row_of_selection(const Document& document, std::int64_t visible) const;
  bool rows_want_keys();
  void handle_keys(Document& document, std::int64_t visible);
  std::int64_t selected_row(const Document& document) const;
  void select(Document& document, EventId id);
  void show_moment_of(Document& document, EventId id);

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
  bool had_keys_ = false;  ///< the panel, a frame ago
  bool to_words_ = false;
  bool unfinished_ = false;
  bool to_rows_ = false;
  EventId menu_event_ = -1;
  bool opens_menu_ = false;
  int menu_cursor_ = 0;
  std::optional<ImVec2> menu_at_;  ///< where a key has opened it; else at the mouse
};

constexpr const char* menu_id = "event";
constexpr ImGuiWindowFlags rows_flags = ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse |
                                        ImGuiWindowFlags_NoNavInputs;  // they take arrows themselves

void LogPanel::draw(Document& document, const Theme& theme) {
  if (document.events == nullptr) {
    ImGui::TextWrapped("No run and no recording: there are no events.");
    return;
  }
  list_.show(*document.events, document.info);
  draw_filter(document);
  const bool complete = list_.update();
  unfinished_ = !complete;
  const std::string count = event_count(list_.size()) + (complete ? "" : " …");
  same_line_for(text_size(count).x);
  ImGui::TextUnformatted(count.c_str());
  draw_rows(document, theme);
}

/// Where the panel is reached by a key, its rows are; not where the mouse has just hit something else of it.
bool LogPanel::rows_want_keys() {
  const bool has_keys = ImGui::IsWindowFocused(ImGuiFocusedFlags_RootAndChildWindows);
  const bool reached = has_keys && (!had_keys_ || ImGui::IsWindowAppearing()) && !ImGui::IsAnyMouseDown();
  had_keys_ = has_keys;
  const bool wanted = reached || to_rows_;
  to_rows_ = false;
  return wanted;
}

void LogPanel::draw_filter(const Document& document) {
  const float font = ImGui::GetFontSize();
  ImGui::SetNextItemWidth(12 * font);
  const bool entered = ImGui::InputTextWithHint("##text", "words", text_.data(), text_.size(),
                                                ImGuiInputTextFlags_EnterReturnsTrue);
  if (std::exchange(to_words_, false)) input::focus_last_item();
  to_rows_ = to_rows_ || entered;
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
  same_line_for(number_or_any_px("rank"));
  number_or_any("rank", rank_, document.info.ranks - 1);
  same_line_for(number_or_any_px("bucket"));
  number_or_any("bucket", bucket_, static_cast<int>(document.info.buckets.size()) - 1);
  ListFilter filter;
  filter.text = text_.data();
  if (kind_ > 0) filter.fields.kind = static_cast<trace::Kind>(kind_);
  if (rank_ >= 0) filter.fields.rank = rank_;
  if (bucket_ >= 0) filter.fields.bucket = bucket_;
  list_.set_filter(std::move(filter));
}

void LogPanel::draw_rows(Document& document, const Theme& theme) {
  if (rows_want_keys()) ImGui::SetNextWindowFocus();
  const bool open = ImGui::BeginChild("rows", {0, 0}, false, rows_flags);
  const float row_px = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const auto rows = static_cast<std::int64_t>(ImGui::GetContentRegionAvail().y / row_px) - 1;
  const std::int64_t visible = std::max<std::int64_t>(1, rows);  // below the headings
  if (ImGui::IsWindowFocused() && input::letters_free()) handle_keys(document, visible);
  follow(document, visible);
  scroll_.draw(list_.size(), visible);
  if (open) draw_table(document, theme, visible);
  draw_menu(document);
  ImGui::EndChild();
}

void LogPanel::draw_table(Document& document, const Theme& theme, std::int64_t visible) {
  const float font = ImGui::GetFontSize();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const ImVec2 table{std::max(10 * font, room.x - RowScroll::width_px()), room.y};
  // Narrow, it leaves out what the tooltip tells too.
  steps_shown_ = table.x > 30 * font;
  if (!ImGui::BeginTable(steps_shown_ ? "wide" : "narrow", steps_shown_ ? 5 : 4, log_table_flags, table))
    return;
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
  const Selection& selection = document.selection;
  const bool chosen = selection.event ? *selection.event == id : is_about(event, selection);
  const bool later = !document.moment.follow && event.end_ns > document.moment.at_ns;
  const bool changed = document.change.contains(event);
  ImGui::PushStyleColor(ImGuiCol_Text, later ? theme.faint_text() : changed ? theme.changed() : theme.text());
  const std::string time = fmt::format("{:.3f}###{}", static_cast<double>(event.end_ns) * 1e-6, id);
  if (ImGui::Selectable(time.c_str(), chosen,
                        ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowDoubleClick)) {
    select(document, id);
    if (ImGui::IsMouseDoubleClicked(0)) show_moment_of(document, id);
  }
  if (opens_menu_ && menu_at_ && id == menu_event_)
    menu_at_ = {ImGui::GetItemRectMin().x + ImGui::GetFontSize(), ImGui::GetItemRectMax().y};
  if (ImGui::IsItemHovered()) {
    const std::string moment = when(event);
    ImGui::SetTooltip("%s%s%s", what(event, document.info).c_str(), moment.empty() ? "" : "\n",
                      moment.c_str());
  }
  if (ImGui::IsItemHovered() && ImGui::IsMouseReleased(ImGuiMouseButton_Right)) open_menu(id);
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

/// Of one event. It is drawn outside of the rows, so that it stays while they move on.
void LogPanel::draw_menu(Document& document) {
  if (opens_menu_) {
    select(document, menu_event_);
    ImGui::OpenPopup(menu_id);
  }
  opens_menu_ = false;
  if (menu_at_) ImGui::SetNextWindowPos(*menu_at_, ImGuiCond_Appearing);
  // The menu's keys are the panel's own, so that its cursor is there from the first frame on.
  if (!ImGui::BeginPopup(menu_id, ImGuiWindowFlags_NoNavInputs)) return;
  const bool appears = ImGui::IsWindowAppearing();
  const bool entered = !appears && (input::pressed(ImGuiKey_Enter) || input::pressed(ImGuiKey_Space));
  if (appears) menu_cursor_ = 0;
  if (input::pressed(ImGuiKey_DownArrow, true)) ++menu_cursor_;
  if (input::pressed(ImGuiKey_UpArrow, true)) --menu_cursor_;
  menu_cursor_ = std::clamp(menu_cursor_, 0, document.live != nullptr ? 1 : 0);
  bool done = input::pressed(ImGuiKey_Escape);
  int number = 0;
  const auto item = [&](const std::string& words) {
    const bool at_cursor = number++ == menu_cursor_;
    const bool chosen = ImGui::Selectable(words.c_str(), at_cursor && menu_at_) || (entered && at_cursor);
    done = done || chosen;
    return chosen;
  };
  if (document.live != nullptr) {
    const trace::Breakpoint where = breakpoint_at(document.events->event(menu_event_));
    if (item("Break " + describe(where, document.info))) add_breakpoint(document, where);
  }
  if (item("Show this moment")) show_moment_of(document, menu_event_);
  to_rows_ = to_rows_ || done;
  if (done) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

void LogPanel::select(Document& document, EventId id) {
  document.selection.set(select_event(id, document.events->event(id)));
  seen_selection_ = document.selection.revision;  // it is on screen already
}

void LogPanel::show_moment_of(Document& document, EventId id) {
  go_to(document, document.events->event(id).end_ns);
  seen_moment_ns_ = document.moment.at_ns;
}

/// -1: none of the rows is. Several may have ended at the same time.
std::int64_t LogPanel::selected_row(const Document& document) const {
  const auto& selected = document.selection.event;
  if (!selected || *selected >= document.events->size()) return -1;
  const std::int64_t end_ns = document.events->event(*selected).end_ns;
  std::int64_t row = list_.row_at(end_ns);
  while (row >= 0 && list_.row(row) != *selected && document.events->event(list_.row(row)).end_ns == end_ns)
    --row;
  return row >= 0 && list_.row(row) == *selected ? row : -1;
}

void LogPanel::handle_keys(Document& document, std::int64_t visible) {
  if (input::pressed('/')) to_words_ = true;
  if (list_.size() == 0) return;
  const std::int64_t selected = selected_row(document);
  const bool entered = input::enter_pressed();
  if (selected >= 0 && entered) show_moment_of(document, list_.row(selected));
  if (selected >= 0 && input::menu_pressed()) {
    open_menu(list_.row(selected));
    scroll_.reveal(selected, visible);
    menu_at_ = ImGui::GetCursorScreenPos();
  }
  if (input::pressed(ImGuiKey_Home)) scroll_.show(0, visible);
  const int by =
      (input::pressed(ImGuiKey_DownArrow, true) ? 1 : 0) - (input::pressed(ImGuiKey_UpArrow, true) ? 1 : 0);
  if (by == 0) return;
  const std::int64_t last_shown = std::min(list_.size(), scroll_.first() + visible) - 1;
  const std::int64_t first_row = by > 0 ? std::min(scroll_.first(), last_shown) : last_shown;
  const std::int64_t row = selected < 0 ? first_row : selected + by;
  if (row < 0 || row >= list_.size()) return;
  select(document, list_.row(row));
  scroll_.reveal(row, visible);
}

/// The row that has what is selected; -1: it is on screen already, or there is none.
std::int64_t LogPanel::row_of_selection(const Document& document, std::int64_t visible) const {
  const EventIndex& events = *document.events;
  const Selection& selection = document.selection;
  if (selection.event)
    return *selection.event < events.size() ? list_.row_at(events.event(*selection.event).end_ns) : -1;
  const std::int64_t end = std::min(list_.size(), scroll_.first() + visible);
  for (std::int64_t row = std::max<std::int64_t>(0, scroll_.first()); row < end; ++row) {
    if (is_about(events.event(list_.row(row)), selection)) return -1;
  }
  EventFilter filter;
  if (selection.param) filter.kind = trace::Kind::grad_ready;
  filter.rank = selection.rank;
  filter.bucket = selection.bucket;
  filter.param = selection.param;
  filter.step = selection.step;
  const auto found =
      selection.step ? events.first_after(-1, filter) : events.last_at(document.moment.at_ns, filter);
  return found ? list_.row_at(events.event(*found).end_ns) : -1;
}

/// To the newest while following, to the moment that the view went to, and to what was selected elsewhere.
void LogPanel::follow(const Document& document, std::int64_t visible) {
  std::int64_t row = -1;
  const bool selected = document.selection.revision != seen_selection_;
  seen_selection_ = document.selection.revision;
  if (selected) row = row_of_selection(document, visible);
  if (!document.moment.follow) {
    if (row < 0 && document.moment.at_ns != seen_moment_ns_) row = list_.row_at(document.moment.at_ns);
    seen_moment_ns_ = document.moment.at_ns;
  } else if (row < 0 && list_.size() != seen_size_ && scroll_.at_end()) {
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
