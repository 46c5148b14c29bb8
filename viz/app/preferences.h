// What the window remembers from one start to the next.
#pragma once

#include <set>
#include <string>

namespace zero1::viz {

struct Preferences {
  bool dark = true;
  int width = 1440;
  int height = 900;
  float right_share = 0.33F;  ///< of the width: the column of tabs
  float upper_share = 0.46F;  ///< of the height: the ownership map
  std::set<std::string> hidden_panels;

  friend bool operator==(const Preferences&, const Preferences&) = default;
};

/// $XDG_CONFIG_HOME/zero1_lab, else ~/.config/zero1_lab; empty where there is no home.
std::string config_folder();

/// Lines of `key = value`. What is unknown, or makes no sense, is left at its default.
Preferences parse_preferences(const std::string& text);
std::string to_text(const Preferences& preferences);

/// Never fail: a window that cannot remember is still a window.
Preferences load_preferences(const std::string& folder);
void save_preferences(const std::string& folder, const Preferences& preferences) noexcept;

}  // namespace zero1::viz
