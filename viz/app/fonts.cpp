#include "viz/app/fonts.h"

#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

namespace zero1::viz {

namespace {

namespace fs = std::filesystem;

constexpr float text_px = 15;

// In order of preference.
constexpr std::array text_fonts{"DejaVuSans.ttf",      "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf",
                                "Ubuntu-R.ttf",        "Roboto-Regular.ttf",   "FreeSans.ttf",
                                "OpenSans-Regular.ttf"};
constexpr std::array other_fonts{"NotoSansCJK-Regular.ttc",
                                 "NotoSansCJKsc-Regular.otf",
                                 "NotoSansSC-Regular.otf",
                                 "NotoSansSC-Regular.ttf",
                                 "SourceHanSansSC-Regular.otf",
                                 "SourceHanSansCN-Regular.otf",
                                 "wqy-microhei.ttc",
                                 "wqy-zenhei.ttc",
                                 "DroidSansFallbackFull.ttf",
                                 "DroidSansFallback.ttf",
                                 "unifont.ttf",
                                 "FreeSans.ttf"};

std::vector<std::string> font_folders(const std::string& extra_folder) {
  std::vector<std::string> folders;
  if (!extra_folder.empty()) folders.push_back(extra_folder);
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    folders.push_back(std::string(home) + "/.local/share/fonts");
    folders.push_back(std::string(home) + "/.fonts");
  }
  folders.insert(folders.end(), {"/usr/local/share/fonts", "/usr/share/fonts"});
  return folders;
}

/// File name → path, the first folder's where two have the same name.
std::map<std::string, std::string, std::less<>> list_fonts(const std::vector<std::string>& folders) {
  constexpr int most_files = 20'000;
  std::map<std::string, std::string, std::less<>> found;
  int seen = 0;
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
    for (; !error && entry != fs::recursive_directory_iterator() && seen < most_files;
         entry.increment(error), ++seen) {
      std::error_code none;
      if (entry->is_regular_file(none))
        found.emplace(entry->path().filename().string(), entry->path().string());
    }
  }
  return found;
}

/// What every window may show: Latin, Greek, Cyrillic, punctuation, arrows, mathematics, shapes.
constexpr std::array<ImWchar, 17> usual_ranges{0x0020, 0x024F, 0x0370, 0x052F, 0x2010, 0x205E,
                                               0x2070, 0x209F, 0x2190, 0x21FF, 0x2200, 0x22FF,
                                               0x25A0, 0x25FF, 0xFFFD, 0xFFFD, 0};

bool beyond_usual(const ImVector<ImWchar>& ranges) {
  for (int i = 0; i + 1 < ranges.Size; i += 2) {
    if (ranges[i] >= 0x0530 && !(ranges[i] >= 0x2010 && ranges[i] <= 0x25FF)) return true;
  }
  return false;
}

}  // namespace

FontFiles find_fonts(const std::string& extra_folder) {
  const auto found = list_fonts(font_folders(extra_folder));
  FontFiles files;
  for (const std::string_view name : text_fonts) {
    const auto file = found.find(name);
    if (file == found.end()) continue;
    files.text = file->second;
    break;
  }
  for (const std::string_view name : other_fonts) {
    const auto file = found.find(name);
    if (file != found.end() && file->second != files.text) files.others.push_back(file->second);
  }
  return files;
}

void load_fonts(const FontFiles& files, float scale, const std::vector<std::string>& texts) {
  // The ranges must live until the atlas is built, which the back end may do later.
  static ImVector<ImWchar> shown;
  ImFontGlyphRangesBuilder builder;
  for (const std::string& text : texts) builder.AddText(text.data(), text.data() + text.size());
  shown.clear();
  builder.BuildRanges(&shown);

  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  const float size = std::round(text_px * scale);
  if (files.text.empty()) {
    ImFontConfig config;
    config.SizePixels = std::round(13 * scale);
    atlas.AddFontDefault(&config);
  } else {
    ImFontConfig config;
    config.OversampleH = 1;
    atlas.AddFontFromFileTTF(files.text.c_str(), size, &config, usual_ranges.data());
  }
  if (shown.Size > 1 && beyond_usual(shown)) {
    ImFontConfig merge;
    merge.MergeMode = true;
    merge.OversampleH = 1;
    if (!files.text.empty()) atlas.AddFontFromFileTTF(files.text.c_str(), size, &merge, shown.Data);
    for (const std::string& file : files.others) {
      atlas.AddFontFromFileTTF(file.c_str(), size, &merge, shown.Data);
    }
  }
  atlas.Build();
}

}  // namespace zero1::viz
