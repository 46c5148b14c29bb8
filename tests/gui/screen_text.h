// Reads what is written on screen, as a user's eye does: from the letters in the draw lists.
#pragma once

#include <imgui.h>

#include <cmath>
#include <map>
#include <string>
#include <tuple>

namespace zero1::viz::test {

/// The text of the last frame, a line for each piece that was written in one go. Letters that the built-in
/// font lacks are missing.
inline std::string screen_text() {
  std::map<std::tuple<float, float, float, float>, const ImFontGlyph*> glyphs;
  const ImFont& font = *ImGui::GetIO().Fonts->Fonts[0];
  for (const ImFontGlyph& glyph : font.Glyphs) {
    if (glyph.Visible && glyph.Codepoint < 128) glyphs[{glyph.U0, glyph.V0, glyph.U1, glyph.V1}] = &glyph;
  }
  const float space = font.GetCharAdvance(' ');
  std::string text;
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int l = 0; l < data.CmdListsCount; ++l) {
    const ImVector<ImDrawVert>& corners = data.CmdLists[l]->VtxBuffer;
    ImVec2 next{-1, -1};
    for (int i = 0; i + 3 < corners.Size; ++i) {
      const ImDrawVert& first = corners[i];
      const ImDrawVert& last = corners[i + 2];
      const auto found = glyphs.find({first.uv.x, first.uv.y, last.uv.x, last.uv.y});
      if (found == glyphs.end()) continue;
      const ImFontGlyph& glyph = *found->second;
      const ImVec2 at{first.pos.x - glyph.X0, first.pos.y - glyph.Y0};
      const float gap = at.x - next.x;
      const bool same_line = std::abs(at.y - next.y) < 1 && gap > -1 && gap < 2.5F * space;
      if (!same_line) text += '\n';
      if (same_line && gap > 0.5F * space) text += ' ';
      text += static_cast<char>(glyph.Codepoint);
      next = {at.x + glyph.AdvanceX, at.y};
      i += 3;
    }
  }
  return text;
}

inline bool on_screen(const std::string& words) {
  return screen_text().find(words) != std::string::npos;
}

}  // namespace zero1::viz::test
