#include "viz/app/style.h"

#include "viz/panels/draw.h"

namespace zero1::viz {

void apply_style(const Theme& theme) {
  ImGuiStyle style;
  if (theme.dark) {
    ImGui::StyleColorsDark(&style);
  } else {
    ImGui::StyleColorsLight(&style);
  }
  style.WindowRounding = 0;
  style.WindowBorderSize = 1;
  style.WindowPadding = {10, 8};
  style.FrameRounding = 4;
  style.FramePadding = {7, 4};
  style.ItemSpacing = {8, 6};
  style.GrabRounding = 4;
  style.GrabMinSize = 12;
  style.PopupRounding = 5;
  style.ScrollbarRounding = 6;
  style.TabRounding = 5;
  style.WindowMenuButtonPosition = ImGuiDir_None;

  const ImU32 ground = theme.background();
  const ImU32 ink = theme.text();
  const ImU32 accent = theme.dark ? IM_COL32(88, 152, 235, 255) : IM_COL32(30, 100, 200, 255);
  const auto set = [&style](ImGuiCol which, ImU32 colour) {
    style.Colors[which] = ImGui::ColorConvertU32ToFloat4(colour);
  };
  const auto tint = [&](float share) { return mixed(ground, ink, share); };
  set(ImGuiCol_Text, ink);
  set(ImGuiCol_TextDisabled, theme.faint_text());
  set(ImGuiCol_WindowBg, ground);
  set(ImGuiCol_ChildBg, faded(ground, 0));
  set(ImGuiCol_PopupBg, tint(theme.dark ? 0.06F : 0.01F));
  set(ImGuiCol_Border, theme.grid());
  set(ImGuiCol_FrameBg, tint(theme.dark ? 0.10F : 0.07F));
  set(ImGuiCol_FrameBgHovered, tint(0.16F));
  set(ImGuiCol_FrameBgActive, tint(0.20F));
  set(ImGuiCol_TitleBg, tint(0.05F));
  set(ImGuiCol_TitleBgActive, mixed(ground, accent, theme.dark ? 0.22F : 0.16F));
  set(ImGuiCol_MenuBarBg, tint(0.05F));
  set(ImGuiCol_CheckMark, accent);
  set(ImGuiCol_SliderGrab, accent);
  set(ImGuiCol_SliderGrabActive, mixed(accent, ink, 0.25F));
  set(ImGuiCol_Button, mixed(ground, accent, 0.28F));
  set(ImGuiCol_ButtonHovered, mixed(ground, accent, 0.45F));
  set(ImGuiCol_ButtonActive, mixed(ground, accent, 0.60F));
  set(ImGuiCol_Header, mixed(ground, accent, 0.30F));
  set(ImGuiCol_HeaderHovered, mixed(ground, accent, 0.42F));
  set(ImGuiCol_HeaderActive, mixed(ground, accent, 0.55F));
  set(ImGuiCol_Tab, tint(0.07F));
  set(ImGuiCol_TabHovered, mixed(ground, accent, 0.45F));
  set(ImGuiCol_TabActive, mixed(ground, accent, 0.35F));
  set(ImGuiCol_Separator, theme.grid());
  set(ImGuiCol_TableHeaderBg, tint(0.08F));
  set(ImGuiCol_TableBorderLight, theme.grid());
  set(ImGuiCol_TableBorderStrong, theme.grid());
  set(ImGuiCol_TableRowBgAlt, tint(0.03F));
  set(ImGuiCol_PlotLines, accent);
  set(ImGuiCol_PlotHistogram, accent);
  set(ImGuiCol_NavHighlight, accent);
  style.ScaleAllSizes(theme.scale);
  ImGui::GetStyle() = style;
}

}  // namespace zero1::viz
