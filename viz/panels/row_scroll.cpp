#include "viz/panels/row_scroll.h"

#include <algorithm>
#include <cmath>

#include "viz/panels/input.h"

namespace zero1::viz {

namespace {

constexpr float rows_per_notch = 3;

}  // namespace

float RowScroll::width_px() {
  return ImGui::GetStyle().ScrollbarSize;
}

void RowScroll::drag(std::int64_t last, float top, float room, float grab) {
  const float mouse = ImGui::GetIO().MousePos.y - top;
  if (ImGui::IsItemActivated()) {
    const float at = room * static_cast<float>(static_cast<double>(first_) / static_cast<double>(last));
    const bool on_bar = mouse >= at && mouse < at + grab;
    held_at_ = on_bar ? mouse - at : grab / 2;
  }
  const double share = std::clamp((mouse - held_at_) / std::max(room, 1.0F), 0.0F, 1.0F);
  first_ = std::llround(share * static_cast<double>(last));
}

void RowScroll::draw(std::int64_t rows, std::int64_t visible) {
  const std::int64_t last = std::max<std::int64_t>(0, rows - visible);
  if (ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) {
    wheel_ -= ImGui::GetIO().MouseWheel * rows_per_notch;
    const float whole = std::trunc(wheel_);
    first_ += static_cast<std::int64_t>(whole);
    wheel_ -= whole;
  }
  if (ImGui::IsWindowFocused(ImGuiFocusedFlags_ChildWindows) && input::letters_free()) {
    if (input::pressed(ImGuiKey_PageUp, true)) first_ -= visible;
    if (input::pressed(ImGuiKey_PageDown, true)) first_ += visible;
  }
  first_ = std::clamp<std::int64_t>(first_, 0, last);
  if (last > 0) {
    const ImVec2 cursor = ImGui::GetCursorPos();
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 size = ImGui::GetContentRegionAvail();
    const ImVec2 bar{at.x + size.x - width_px(), at.y};
    const float height = std::max(size.y, 1.0F);
    const double share = static_cast<double>(visible) / static_cast<double>(rows);
    const float grab =
        std::min(height, std::max(static_cast<float>(share) * height, ImGui::GetStyle().GrabMinSize));
    const float room = height - grab;
    ImGui::SetCursorScreenPos(bar);
    ImGui::InvisibleButton("scroll", {width_px(), height});
    if (ImGui::IsItemActive()) drag(last, bar.y, room, grab);
    const ImGuiCol colour = ImGui::IsItemActive()    ? ImGuiCol_ScrollbarGrabActive
                            : ImGui::IsItemHovered() ? ImGuiCol_ScrollbarGrabHovered
                                                     : ImGuiCol_ScrollbarGrab;
    const float top =
        bar.y + room * static_cast<float>(static_cast<double>(first_) / static_cast<double>(last));
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const float rounding = ImGui::GetStyle().ScrollbarRounding;
    list.AddRectFilled(bar, {bar.x + width_px(), bar.y + height}, ImGui::GetColorU32(ImGuiCol_ScrollbarBg));
    list.AddRectFilled({bar.x + 2, top}, {bar.x + width_px() - 2, top + grab}, ImGui::GetColorU32(colour),
                       rounding);
    ImGui::SetCursorPos(cursor);
  }
  at_end_ = first_ >= last;
}

}  // namespace zero1::viz
