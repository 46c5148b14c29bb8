// Small shapes that panels draw.
#pragma once

#include <imgui.h>

#include <string>
#include <string_view>

namespace zero1::viz {

struct Box {
  ImVec2 min;
  ImVec2 max;

  float width() const { return max.x - min.x; }
  float height() const { return max.y - min.y; }
};

/// Diagonal lines, for what is not there: padding.
void draw_hatching(ImDrawList& list, const Box& box, ImU32 colour, float spacing_px);

/// `text` in the middle of the box where it fits with `margin_px` on both sides. Returns whether it did.
bool draw_label(ImDrawList& list, const Box& box, ImU32 colour, std::string_view text, float margin_px = 3);

/// As much of a dotted name as fits into `width_px`: "h.0.mlp.c_fc.weight", "mlp.c_fc.weight",
/// "c_fc.weight", "c_fc", "weight"; empty where nothing fits.
std::string_view fitting_name(std::string_view name, float width_px);

/// The next item goes on this line where `width_px` is left of it, else on the next.
void same_line_for(float width_px);

/// A field for a number of which -1 is "any", and how wide it is with its label.
void number_or_any(const char* label, int& value, int largest);
float number_or_any_px(const char* label);

/// One line of text, cut with "…" where it does not fit; the whole of it under the mouse.
void text_on_line(ImU32 colour, const std::string& text);

/// Text as it is, and in the colour of what matters less.
void plain_text(std::string_view text);
void faint_text(ImU32 colour, std::string_view text);

/// The colour with its opacity multiplied.
ImU32 faded(ImU32 colour, float opacity);

/// Both colours mixed: `share` of the second.
ImU32 mixed(ImU32 a, ImU32 b, float share);

inline ImVec2 text_size(std::string_view text) {
  return ImGui::CalcTextSize(text.data(), text.data() + text.size());
}
inline void draw_text(ImDrawList& list, ImVec2 at, ImU32 colour, std::string_view text) {
  list.AddText(at, colour, text.data(), text.data() + text.size());
}

}  // namespace zero1::viz
