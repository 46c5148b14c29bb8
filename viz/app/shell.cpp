#include "viz/app/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/units.h"
#include "viz/app/help.h"
#include "viz/app/style.h"
#include "viz/model/event_index.h"
#include "viz/model/event_words.h"
#include "viz/model/live_run.h"
#include "viz/panels/draw.h"
#include "viz/panels/input.h"

namespace zero1::viz {

namespace {

constexpr ImGuiWindowFlags fixed_window = ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoResize |
                                          ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings;
constexpr ImGuiWindowFlags bare_window = fixed_window | ImGuiWindowFlags_NoTitleBar |
                                         ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoNavFocus |
                                         ImGuiWindowFlags_NoBringToFrontOnFocus;
constexpr const char* tabs_window = "Details";

}  // namespace

Shell::Shell(Document document, Preferences preferences, float scale)
    : document_(std::move(document)), preferences_(std::move(preferences)) {
  theme_.dark = preferences_.dark;
  theme_.scale = scale;
  apply_style(theme_);
  add_panels();
}

Shell::~Shell() = default;

void Shell::add(std::unique_ptr<Panel> panel, Place place) {
  std::string title(panel->title());
  entries_.push_back({std::move(panel), place, std::move(title)});
}

void Shell::add_panels() {
  add(make_ownership_panel(), Place::upper);
  if (document_.exploration != nullptr) {
    add(make_memory_panel(), Place::lower);
    add(make_explore_panel(), Place::tab);
    return;
  }
  add(make_timeline_panel(), Place::lower);
  add(make_control_panel(), Place::strip);
  add(make_element_panel(), Place::tab);
  add(make_overlap_panel(), Place::tab);
  add(make_memory_panel(), Place::tab);
  add(make_metrics_panel(), Place::tab);
  add(make_log_panel(), Place::tab);
  add(make_settings_panel(), Place::tab);
}

void Shell::set_scale(float scale) {
  theme_.scale = scale;
  apply_style(theme_);
  for (Entry& entry : entries_) entry.tallest_px = 0;
}

void Shell::toggle_theme() {
  theme_.dark = preferences_.dark = !theme_.dark;
  apply_style(theme_);
}

void Shell::show_tab(std::string_view title) {
  std::string names;
  for (const Entry& entry : entries_) {
    if (entry.place != Place::tab) continue;
    names += (names.empty() ? "" : ", ") + entry.title;
    if (entry.title != title) continue;
    preferences_.hidden_panels.erase(entry.title);
    wanted_tab_ = title;
    return;
  }
  throw InputError(fmt::format("--tab '{}': there are: {}", title, names));
}

Shell::Entry* Shell::find(Place place) {
  for (Entry& entry : entries_) {
    if (entry.place == place && shown(entry)) return &entry;
  }
  return nullptr;
}

int Shell::shown_tabs() const {
  return static_cast<int>(std::count_if(entries_.begin(), entries_.end(), [this](const Entry& entry) {
    return entry.place == Place::tab && shown(entry);
  }));
}

void Shell::draw() {
  unfinished_ = searching_ = false;
  handle_keys();
  draw_menu();
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  const float status_px = ImGui::GetFrameHeight();
  const ImVec2 at = viewport.WorkPos;
  const ImVec2 size{viewport.WorkSize.x, std::max(viewport.WorkSize.y - status_px, 1.0F)};
  draw_places({at, size});
  draw_status({{at.x, at.y + size.y}, {size.x, status_px}});
  draw_help();
  begin_search();
}

/// With the keys elsewhere, on a slider or a button, `/` means the map.
void Shell::begin_search() {
  if (searching_ || help_open_ || !input::letters_free() || !input::pressed('/')) return;
  for (const Entry& entry : entries_) {
    if (entry.place == Place::upper && shown(entry)) entry.panel->begin_search();
  }
}

void Shell::handle_keys() {
  if (input::function_key_pressed(1)) help_open_ = !help_open_;
  if (!input::ctrl()) return;
  if (input::pressed('Q')) quit_ = true;
  if (input::pressed('T')) toggle_theme();
  for (int number = 1; number <= 9; ++number) {
    if (input::pressed(static_cast<char>('0' + number))) focus_panel(number);
  }
  constexpr float step = 0.02F;
  if (input::pressed('-', true)) move_bar(preferences_.upper_share, -step);
  if (input::pressed('=', true)) move_bar(preferences_.upper_share, step);
  if (input::pressed('[', true)) move_bar(preferences_.right_share, step);
  if (input::pressed(']', true)) move_bar(preferences_.right_share, -step);
}

/// The bars between panels, as far as the mouse can drag them.
void Shell::move_bar(float& share, float by) {
  share = std::clamp(share + by, 0.12F, 0.85F);
}

/// Panels are numbered in the order of the menu.
void Shell::focus_panel(int number) {
  if (number > static_cast<int>(entries_.size())) return;
  Entry& entry = entries_[static_cast<std::size_t>(number) - 1];
  preferences_.hidden_panels.erase(entry.title);
  if (entry.place == Place::tab) {
    wanted_tab_ = wanted_content_ = entry.title;
    wanted_focus_ = tabs_window;
  } else {
    wanted_focus_ = entry.title;
  }
}

void Shell::draw_menu() {
  if (!ImGui::BeginMainMenuBar()) return;
  if (ImGui::BeginMenu("Window")) {
    if (ImGui::MenuItem(theme_.dark ? "Light theme" : "Dark theme", "Ctrl+T")) toggle_theme();
    if (ImGui::MenuItem("Default layout")) {
      const bool dark = preferences_.dark;
      preferences_ = {};
      preferences_.dark = dark;
    }
    ImGui::Separator();
    if (ImGui::MenuItem("Quit", "Ctrl+Q")) quit_ = true;
    ImGui::EndMenu();
  }
  if (ImGui::BeginMenu("Panels")) {
    int number = 0;
    for (const Entry& entry : entries_) {
      ++number;
      const std::string key = number <= 9 ? fmt::format("Ctrl+{}", number) : "";
      if (!ImGui::MenuItem(entry.title.c_str(), key.c_str(), shown(entry))) continue;
      if (!preferences_.hidden_panels.erase(entry.title)) preferences_.hidden_panels.insert(entry.title);
    }
    ImGui::EndMenu();
  }
  if (ImGui::BeginMenu("Help")) {
    if (ImGui::MenuItem("Keys and mouse", "F1")) help_open_ = true;
    ImGui::EndMenu();
  }
  const float width = text_size(document_.title).x + ImGui::GetFontSize();
  if (ImGui::GetContentRegionAvail().x > width) {
    ImGui::SameLine(ImGui::GetWindowWidth() - width);
    ImGui::PushStyleColor(ImGuiCol_Text, theme_.faint_text());
    ImGui::TextUnformatted(document_.title.c_str());
    ImGui::PopStyleColor();
  }
  ImGui::EndMainMenuBar();
}

void Shell::draw_status(const Area& area) {
  ImGui::SetNextWindowPos(area.at);
  ImGui::SetNextWindowSize(area.size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding,
                      ImVec2(ImGui::GetStyle().WindowPadding.x, ImGui::GetStyle().FramePadding.y));
  ImGui::Begin("##status", nullptr, bare_window);
  ImGui::PopStyleVar();
  std::string text;
  if (document_.events != nullptr) {
    const EventIndex& events = *document_.events;
    text = fmt::format("{}   {} dropped", event_count(events.size()), format_count(events.dropped()));
    if (events.loading()) text += fmt::format("   loading {:.0f}%", 100 * events.progress());
    text += fmt::format("   at {}", format_duration_ns(document_.moment.at_ns));
    if (!document_.moment.follow) text += " (gone back)";
  }
  ImGui::PushStyleColor(ImGuiCol_Text, theme_.faint_text());
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopStyleColor();
  if (!document_.error.empty()) {
    if (!text.empty()) ImGui::SameLine(0, 2 * ImGui::GetFontSize());
    const std::string first_line = document_.error.substr(0, document_.error.find('\n'));
    ImGui::PushStyleColor(ImGuiCol_Text, theme_.exposed());
    ImGui::TextUnformatted(first_line.c_str());
    ImGui::PopStyleColor();
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", document_.error.c_str());
  }
  const char* hint = "F1  keys and mouse";
  const float hint_x = ImGui::GetWindowWidth() - text_size(hint).x - ImGui::GetStyle().WindowPadding.x;
  if (ImGui::GetItemRectMax().x + ImGui::GetFontSize() < area.at.x + hint_x) {
    ImGui::SameLine(hint_x);
    ImGui::PushStyleColor(ImGuiCol_Text, theme_.faint_text());
    ImGui::TextUnformatted(hint);
    ImGui::PopStyleColor();
  }
  ImGui::End();
}

void Shell::draw_places(const Area& area) {
  const float gap = std::floor(5 * theme_.scale);
  const bool column = shown_tabs() > 0 || find(Place::strip) != nullptr;
  const float least_px = std::min(21 * ImGui::GetFontSize(), 0.5F * area.size.x);
  const float right_px =
      column ? std::floor(std::clamp(area.size.x * preferences_.right_share, least_px, 0.8F * area.size.x))
             : 0;
  const Area left{area.at, {area.size.x - right_px - (column ? gap : 0), area.size.y}};

  // Splitters lie in a window of their own behind the panels.
  ImGui::SetNextWindowPos(area.at);
  ImGui::SetNextWindowSize(area.size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::Begin("##places", nullptr, bare_window | ImGuiWindowFlags_NoFocusOnAppearing);
  ImGui::PopStyleVar();
  Entry* upper = find(Place::upper);
  Entry* lower = find(Place::lower);
  const bool both = upper != nullptr && lower != nullptr;
  const float upper_px = both ? std::floor((area.size.y - gap) * preferences_.upper_share) : area.size.y;
  if (both) {
    draw_splitter("rows", {{left.at.x, left.at.y + upper_px}, {left.size.x, gap}}, false, area.size.y,
                  preferences_.upper_share, 1);
  }
  if (column) {
    draw_splitter("columns", {{left.at.x + left.size.x, area.at.y}, {gap, area.size.y}}, true, area.size.x,
                  preferences_.right_share, -1);
  }
  ImGui::End();

  if (upper != nullptr) draw_window(*upper, {left.at, {left.size.x, upper_px}});
  if (lower != nullptr) {
    const float top = both ? upper_px + gap : 0;
    draw_window(*lower, {{left.at.x, left.at.y + top}, {left.size.x, area.size.y - top}});
  }
  if (!column) return;
  Area right{{area.at.x + area.size.x - right_px, area.at.y}, {right_px, area.size.y}};
  if (Entry* strip = find(Place::strip); strip != nullptr) {
    // A recording has little to control; who stands still, and a scenario's explanation, need room.
    const bool live = document_.live != nullptr;
    const bool explained = live && !document_.live->explanation().empty();
    // It grows with what it has to say and does not shrink again, so that panels stand still.
    const float usual = std::floor((explained ? 31.0F : live ? 23.0F : 12.0F) * ImGui::GetFontSize());
    const float wanted = std::max(usual, std::ceil(strip->tallest_px));
    const float most = std::floor(right.size.y * (explained ? 0.62F : 0.5F));
    const float strip_px = shown_tabs() > 0 ? std::min(wanted, most) : right.size.y;
    draw_window(*strip, {right.at, {right.size.x, strip_px}});
    right = {{right.at.x, right.at.y + strip_px + gap}, {right.size.x, right.size.y - strip_px - gap}};
  }
  if (shown_tabs() > 0) draw_tabs(right);
}

/// `sign`: whether the share grows or shrinks as the mouse moves to the right or down.
void Shell::draw_splitter(const char* id, const Area& area, bool vertical, float whole, float& share,
                          float sign) {
  ImGui::SetCursorScreenPos(area.at);
  ImGui::InvisibleButton(id, area.size);
  if (ImGui::IsItemHovered() || ImGui::IsItemActive()) {
    ImGui::SetMouseCursor(vertical ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
    ImGui::GetWindowDrawList()->AddRectFilled(area.at, {area.at.x + area.size.x, area.at.y + area.size.y},
                                              theme_.grid());
  }
  if (!ImGui::IsItemActive()) return;
  const ImVec2 moved = ImGui::GetIO().MouseDelta;
  move_bar(share, sign * (vertical ? moved.x : moved.y) / std::max(whole, 1.0F));
}

/// Within its window.
void Shell::draw_panel(Entry& entry) {
  entry.panel->draw(document_, theme_);
  unfinished_ = unfinished_ || entry.panel->unfinished();
  const bool has_keys = ImGui::IsWindowFocused(ImGuiFocusedFlags_ChildWindows);
  searching_ = searching_ || (has_keys && entry.panel->searches());
}

void Shell::draw_window(Entry& entry, const Area& area) {
  ImGui::SetNextWindowPos(area.at);
  ImGui::SetNextWindowSize(area.size);
  if (wanted_focus_ == entry.title) {
    ImGui::SetNextWindowFocus();
    wanted_focus_.clear();
  }
  // Maps take arrows and letters themselves.
  const bool map = entry.place == Place::upper || entry.place == Place::lower;
  bool open = true;
  if (ImGui::Begin(entry.title.c_str(), &open, fixed_window | (map ? ImGuiWindowFlags_NoNavInputs : 0))) {
    draw_panel(entry);
    const float content_px = ImGui::GetCursorPosY() + ImGui::GetStyle().WindowPadding.y;
    entry.tallest_px = std::max(entry.tallest_px, content_px);
  }
  ImGui::End();
  if (!open) preferences_.hidden_panels.insert(entry.title);
}

void Shell::draw_tabs(const Area& area) {
  ImGui::SetNextWindowPos(area.at);
  ImGui::SetNextWindowSize(area.size);
  if (wanted_focus_ == tabs_window) {
    ImGui::SetNextWindowFocus();
    wanted_focus_.clear();
  }
  ImGui::Begin(tabs_window, nullptr, fixed_window | ImGuiWindowFlags_NoTitleBar);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(5 * theme_.scale, ImGui::GetStyle().FramePadding.y));
  const bool tabs = ImGui::BeginTabBar("tabs", ImGuiTabBarFlags_FittingPolicyResizeDown);
  ImGui::PopStyleVar();
  if (tabs) {
    for (Entry& entry : entries_) {
      if (entry.place != Place::tab || !shown(entry)) continue;
      const bool wanted = wanted_tab_ == entry.title;
      if (wanted) wanted_tab_.clear();
      ImGui::PushStyleVar(ImGuiStyleVar_FramePadding,
                          ImVec2(5 * theme_.scale, ImGui::GetStyle().FramePadding.y));
      const bool front =
          ImGui::BeginTabItem(entry.title.c_str(), nullptr, wanted ? ImGuiTabItemFlags_SetSelected : 0);
      ImGui::PopStyleVar();
      if (!front) continue;
      if (wanted_content_ == entry.title) {  // its buttons and rows have the keys, not the tab
        ImGui::SetNextWindowFocus();
        wanted_content_.clear();
      }
      ImGui::BeginChild("content");
      draw_panel(entry);
      ImGui::EndChild();
      ImGui::EndTabItem();
    }
    ImGui::EndTabBar();
  }
  ImGui::End();
}

void Shell::draw_help() {
  const HelpPage page(theme_);
  if (!page.begin(help_open_)) return;
  page.section(
      "Everywhere",
      "Ctrl+1 … Ctrl+9  go to a panel; the menu Panels has the numbers\n"
      "Ctrl+-, Ctrl+=  move the bar below the map; Ctrl+[, Ctrl+]  the bar of the right column\n"
      "Ctrl+T  dark or light theme\nCtrl+Q  quit\nF1, Esc  this page; Up, Down, Page up, Page down  scroll "
      "it\n"
      "arrows, Space  walk through buttons and rows of the panel in use; Space also goes into a table, "
      "Esc out of it; Alt for the menu\n"
      "click  selects a rank, bucket, parameter or event in every panel at once");
  for (const Entry& entry : entries_) {
    if (!entry.panel->help().empty()) page.section(entry.title, entry.panel->help());
  }
  page.end();
}

}  // namespace zero1::viz
