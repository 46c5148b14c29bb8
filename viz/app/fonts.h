// The window's fonts: what the machine has, ImGui's own where it has none.
#pragma once

#include <string>
#include <vector>

namespace zero1::viz {

/// Font files that were found; empty where there is none.
struct FontFiles {
  std::string text;                 ///< Latin, Greek, Cyrillic: DejaVu Sans, Noto Sans and the like
  std::vector<std::string> others;  ///< for everything else, above all Chinese, Japanese and Korean
};

/// Looks in the usual folders; `extra_folder` comes before them.
FontFiles find_fonts(const std::string& extra_folder = {});

/// Replaces the fonts of the current ImGui context. `texts` are strings that will be shown (parameter names):
/// whatever scripts they use get their letters, if a font has them. The back end's texture is not touched.
void load_fonts(const FontFiles& files, float scale, const std::vector<std::string>& texts);

}  // namespace zero1::viz
