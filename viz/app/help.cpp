#include "viz/app/help.h"

#include <algorithm>

#include "viz/panels/draw.h"
#include "viz/panels/input.h"

namespace zero1::viz {

namespace {

constexpr float second_column_ems = 14;

/// There is nothing on the page that ImGui's own keys could go to.
void scroll_by_keys() {
  const auto pressed = [](input::NamedKey key) { return input::pressed(key, true) ? 1.0F : 0.0F; };
  const float line_px = 2 * ImGui::GetTextLineHeightWithSpacing();
  const float page_px = 0.8F * ImGui::GetWindowHeight();
  const float by = line_px * (pressed(ImGuiKey_DownArrow) - pressed(ImGuiKey_UpArrow)) +
                   page_px * (pressed(ImGuiKey_PageDown) - pressed(ImGuiKey_PageUp));
  if (by != 0) ImGui::SetScrollY(std::clamp(ImGui::GetScrollY() + by, 0.0F, ImGui::GetScrollMaxY()));
  if (input::pressed(ImGuiKey_Home)) ImGui::SetScrollY(0);
  if (input::pressed(ImGuiKey_End)) ImGui::SetScrollY(ImGui::GetScrollMaxY());
}

}  // namespace

bool HelpPage::begin(bool& open) const {
  constexpr const char* title = "Keys and mouse";
  if (open && !ImGui::IsPopupOpen(title)) ImGui::OpenPopup(title);
  const ImGuiViewport& viewport = *ImGui::GetMainViewport();
  const float width = std::min(46 * ImGui::GetFontSize(), viewport.WorkSize.x * 0.94F);
  ImGui::SetNextWindowPos(viewport.GetWorkCenter(), ImGuiCond_Always, {0.5F, 0.5F});
  ImGui::SetNextWindowSizeConstraints({width, 0}, {width, viewport.WorkSize.y * 0.92F});
  constexpr ImGuiWindowFlags flags =
      ImGuiWindowFlags_NoMove | ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoSavedSettings;
  if (!ImGui::BeginPopupModal(title, &open, flags)) return false;
  if (input::pressed(ImGuiKey_Escape)) open = false;
  if (!open) ImGui::CloseCurrentPopup();
  scroll_by_keys();
  return true;
}

void HelpPage::section(std::string_view heading, std::string_view lines) const {
  ImGui::PushStyleColor(ImGuiCol_Text, theme_.changed());
  ImGui::TextUnformatted(heading.data(), heading.data() + heading.size());
  ImGui::PopStyleColor();
  while (!lines.empty()) {
    const std::string_view text = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(text.size() + 1, lines.size()));
    const std::size_t gap = text.find("  ");
    const std::size_t what = gap == std::string_view::npos ? gap : text.find_first_not_of(' ', gap);
    line(text.substr(0, gap), what == std::string_view::npos ? std::string_view() : text.substr(what));
  }
  ImGui::Spacing();
}

void HelpPage::line(std::string_view key, std::string_view what) const {
  const float indent = ImGui::GetStyle().WindowPadding.x + ImGui::GetFontSize();
  const float second = second_column_ems * ImGui::GetFontSize();
  ImGui::SetCursorPosX(indent);
  ImGui::TextUnformatted(key.data(), key.data() + key.size());
  if (what.empty()) return;
  // A long key has a line of its own.
  if (indent + text_size(key).x < second - ImGui::GetFontSize() / 2) ImGui::SameLine(second);
  ImGui::SetCursorPosX(second);
  ImGui::PushTextWrapPos(0);
  ImGui::PushStyleColor(ImGuiCol_Text, theme_.faint_text());
  ImGui::TextUnformatted(what.data(), what.data() + what.size());
  ImGui::PopStyleColor();
  ImGui::PopTextWrapPos();
}

void HelpPage::end() const {
  ImGui::EndPopup();
}

}  // namespace zero1::viz
