#include "viz/panels/draw.h"

#include <algorithm>
#include <cmath>

namespace zero1::viz {

namespace {

constexpr float number_ems = 6;

}  // namespace

void draw_hatching(ImDrawList& list, const Box& box, ImU32 colour, float spacing_px) {
  const float height = box.height();
  // Lines go up to the right, on a grid of the screen, so that neighbours' lines meet.
  const float first = std::floor((box.min.x - height) / spacing_px) * spacing_px;
  for (float x = first; x < box.max.x; x += spacing_px) {
    const float left = std::max(x, box.min.x);
    const float right = std::min(x + height, box.max.x);
    if (right - left < 0.5F) continue;
    list.AddLine({left, box.max.y - (left - x)}, {right, box.max.y - (right - x)}, colour);
  }
}

void number_or_any(const char* label, int& value, int largest) {
  ImGui::SetNextItemWidth(number_ems * ImGui::GetFontSize());
  ImGui::InputInt(label, &value);
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("only this %s; -1: any", label);
  value = std::clamp(value, -1, std::max(-1, largest));
}

float number_or_any_px(const char* label) {
  return number_ems * ImGui::GetFontSize() + ImGui::GetStyle().ItemInnerSpacing.x + text_size(label).x;
}

bool draw_label(ImDrawList& list, const Box& box, ImU32 colour, std::string_view text, float margin_px) {
  const ImVec2 size = text_size(text);
  if (text.empty() || size.x + 2 * margin_px > box.width() || size.y > box.height()) return false;
  const ImVec2 at{std::floor((box.min.x + box.max.x - size.x) / 2),
                  std::floor((box.min.y + box.max.y - size.y) / 2)};
  draw_text(list, at, colour, text);
  return true;
}

std::string_view fitting_name(std::string_view name, float width_px) {
  const auto fit = [width_px](std::string_view rest, int least_parts) {
    while (text_size(rest).x > width_px) {
      const std::size_t dot = rest.find('.');
      if (dot == std::string_view::npos) return std::string_view();
      rest = rest.substr(dot + 1);
      if (std::count(rest.begin(), rest.end(), '.') + 1 < least_parts) return std::string_view();
    }
    return rest;
  };
  const std::string_view with_kind = fit(name, 2);
  if (!with_kind.empty()) return with_kind;
  const std::size_t kind = name.rfind('.');
  if (kind == std::string_view::npos) return {};
  const std::string_view without_kind = fit(name.substr(0, kind), 1);
  // Of a part that fits nowhere, at least what it is.
  return without_kind.empty() ? fit(name.substr(kind + 1), 1) : without_kind;
}

void same_line_for(float width_px) {
  ImGui::SameLine();
  if (ImGui::GetContentRegionAvail().x < width_px) ImGui::NewLine();
}

void text_on_line(ImU32 colour, const std::string& text) {
  constexpr const char* cut = "…";
  const float room = ImGui::GetContentRegionAvail().x;
  std::string shown = text;
  if (text_size(text).x > room) {
    const ImFont& font = *ImGui::GetFont();
    const char* end = nullptr;
    font.CalcTextSizeA(ImGui::GetFontSize(), std::max(0.0F, room - text_size(cut).x), 0, text.data(),
                       text.data() + text.size(), &end);
    shown = text.substr(0, static_cast<std::size_t>(end - text.data())) + cut;
  }
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  ImGui::TextUnformatted(shown.c_str());
  ImGui::PopStyleColor();
  if (shown.size() != text.size() && ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text.c_str());
}

void plain_text(std::string_view text) {
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
}

void faint_text(ImU32 colour, std::string_view text) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour);
  plain_text(text);
  ImGui::PopStyleColor();
}

ImU32 faded(ImU32 colour, float opacity) {
  const auto alpha = static_cast<float>((colour >> IM_COL32_A_SHIFT) & 0xFFu) * opacity;
  return (colour & ~IM_COL32_A_MASK) |
         (static_cast<ImU32>(std::clamp(alpha, 0.0F, 255.0F)) << IM_COL32_A_SHIFT);
}

ImU32 mixed(ImU32 a, ImU32 b, float share) {
  ImU32 out = 0;
  for (const int shift : {IM_COL32_R_SHIFT, IM_COL32_G_SHIFT, IM_COL32_B_SHIFT, IM_COL32_A_SHIFT}) {
    const auto from = static_cast<float>((a >> shift) & 0xFFu);
    const auto to = static_cast<float>((b >> shift) & 0xFFu);
    out |= static_cast<ImU32>(std::lround(from + (to - from) * share)) << shift;
  }
  return out;
}

}  // namespace zero1::viz
