#include "viz/panels/ownership_toolbar.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "viz/panels/draw.h"
#include "viz/panels/input.h"
#include "viz/panels/piece_style.h"

namespace zero1::viz {

void MapSearch::forget() {
  found_.clear();
  at_ = -1;
}

void MapSearch::draw(Document& document, const OwnershipMap& map) {
  ImGui::SetNextItemWidth(13 * ImGui::GetFontSize());
  const bool entered = ImGui::InputTextWithHint("##search", "search a parameter  (/)", text_.data(),
                                                text_.size(), ImGuiInputTextFlags_EnterReturnsTrue);
  if (std::exchange(focus_, false)) input::focus_last_item();
  if (ImGui::IsItemEdited()) {
    forget();
    if (text_[0] != '\0') found_ = map.find(text_.data());
  }
  if (entered) {
    go(document, map, 1);
    focus_ = true;
  }
  if (text_[0] == '\0') return;
  ImGui::SameLine();
  if (ImGui::Button("<")) go(document, map, -1);
  ImGui::SameLine(0, 2);
  if (ImGui::Button(">")) go(document, map, 1);
  ImGui::SameLine();
  ImGui::TextUnformatted(fmt::format("{} of {}", at_ + 1, found_.size()).c_str());
}

void MapSearch::go(Document& document, const OwnershipMap& map, int by) {
  if (found_.empty()) return;
  const int count = static_cast<int>(found_.size());
  at_ = ((at_ < 0 && by < 0 ? 0 : at_) + by + count) % count;
  Selection next = document.selection;
  next.param = found_[static_cast<std::size_t>(at_)];
  next.element.reset();
  next.bucket = map.param_bucket(*next.param);
  document.selection.set(next);
}

void draw_state_legend(const Theme& theme) {
  const float font = ImGui::GetFontSize();
  const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x;
  bool second_line = false;
  for (const PieceState state :
       {PieceState::accumulating, PieceState::ready, PieceState::reducing, PieceState::reduced,
        PieceState::stepped, PieceState::stale, PieceState::gathering, PieceState::current}) {
    const std::string label(name(state));
    const float width = 0.9F * font + 0.4F * font + text_size(label).x;
    // Asked before SameLine: whatever comes next must begin a line of its own.
    if (ImGui::GetItemRectMax().x + font + width > right) {
      if (second_line) return;
      second_line = true;
    } else {
      ImGui::SameLine(0, font);
    }
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const float top = at.y + (ImGui::GetFrameHeight() - 0.9F * font) / 2;
    const Box box{{at.x, top}, {at.x + 0.9F * font, top + 0.9F * font}};
    const ImU32 colour = piece_colour(state, theme);
    const bool hatched = piece_hatched(state);
    list.AddRectFilled(box.min, box.max, hatched ? mixed(theme.background(), colour, 0.5F) : colour);
    if (hatched) draw_hatching(list, box, colour, 0.35F * font);
    draw_text(list, {box.max.x + 0.4F * font, at.y + ImGui::GetStyle().FramePadding.y}, theme.faint_text(),
              label);
    ImGui::Dummy({width, ImGui::GetFrameHeight()});
  }
}

}  // namespace zero1::viz
