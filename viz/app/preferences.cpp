#include "viz/app/preferences.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <sstream>

#include "core/base/file.h"
#include "core/base/terminal.h"

namespace zero1::viz {

namespace {

constexpr const char* file_name = "/window.conf";

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

template <class Number>
void read_number(const std::string& text, Number least, Number most, Number& into) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && value >= least && value <= most) into = value;
}

}  // namespace

std::string config_folder() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config == '/') {
    return std::string(config) + "/zero1_lab";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::string(home) + "/.config/zero1_lab";
  }
  return {};
}

Preferences parse_preferences(const std::string& text) {
  Preferences p;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = trimmed(line.substr(0, equals));
    const std::string value = trimmed(line.substr(equals + 1));
    if (key == "theme") p.dark = value != "light";
    if (key == "width") read_number(value, 200, 20'000, p.width);
    if (key == "height") read_number(value, 200, 20'000, p.height);
    if (key == "right_share") read_number(value, 0.05F, 0.9F, p.right_share);
    if (key == "upper_share") read_number(value, 0.05F, 0.95F, p.upper_share);
    if (key == "hidden" && !value.empty()) p.hidden_panels.insert(value);
  }
  return p;
}

std::string to_text(const Preferences& p) {
  std::string text =
      fmt::format("theme = {}\nwidth = {}\nheight = {}\nright_share = {:.4f}\nupper_share = {:.4f}\n",
                  p.dark ? "dark" : "light", p.width, p.height, p.right_share, p.upper_share);
  for (const std::string& panel : p.hidden_panels) text += fmt::format("hidden = {}\n", panel);
  return text;
}

Preferences load_preferences(const std::string& folder) {
  if (folder.empty()) return {};
  std::error_code none;
  if (!std::filesystem::is_regular_file(folder + file_name, none)) return {};
  try {
    return parse_preferences(read_file(folder + file_name));
  } catch (const std::exception&) {
    return {};
  }
}

void save_preferences(const std::string& folder, const Preferences& preferences) noexcept {
  if (folder.empty()) return;
  try {
    std::filesystem::create_directories(folder);
    write_file(folder + file_name, to_text(preferences));
  } catch (const std::exception& error) {
    say(stderr, "zero1_viz: the window's layout is not remembered: {}\n", Message{error.what()});
  }
}

}  // namespace zero1::viz
