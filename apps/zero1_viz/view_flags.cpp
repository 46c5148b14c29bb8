#include "apps/zero1_viz/view_flags.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "apps/zero1_viz/at_flag.h"
#include "core/base/error.h"
#include "core/base/output_file.h"
#include "viz/app/window.h"

namespace zero1::app {

namespace {

constexpr int least_size = 200;
constexpr int most_size = 16384;

/// "1440x900".
std::pair<int, int> parse_size(const std::string& text) {
  const std::size_t cross = text.find('x');
  if (cross != std::string::npos) {
    const auto width = parse_number(std::string_view(text).substr(0, cross));
    const auto height = parse_number(std::string_view(text).substr(cross + 1));
    const auto fits = [](const auto& side) { return side && *side >= least_size && *side <= most_size; };
    if (fits(width) && fits(height)) return {static_cast<int>(*width), static_cast<int>(*height)};
  }
  throw InputError(fmt::format("--size {}: expected WIDTHxHEIGHT, {} to {} pixels each, such as 1440x900",
                               text, least_size, most_size));
}

int bounded(const std::string& flag, std::string_view text, int count, const char* what) {
  const auto value = parse_number(text);
  if (value && *value >= 0 && *value < count) return static_cast<int>(*value);
  throw InputError(fmt::format("--select {}: there are {} {}, numbered from 0", flag, count, what));
}

int find_param(const std::string& flag, std::string_view name, const viz::Document& document) {
  for (std::size_t i = 0; i < document.info.params.size(); ++i) {
    if (document.info.params[i] == name) return static_cast<int>(i);
  }
  throw InputError(fmt::format("--select {}: no parameter has this name", flag));
}

}  // namespace

CLI::Validator number_between(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool fits = end != text.c_str() && *end == '\0' && value >= least && value <= most;
        return fits ? std::string() : fmt::format("{} is no number from {} to {}", text, least, most);
      },
      fmt::format("{} to {}", least, most));
}

void add_view_flags(CLI::App& command, ViewFlags& flags) {
  const std::string group = "View";
  command.add_option("--screenshot", flags.screenshot, "Draw into this PNG file and end; needs no display")
      ->group(group)
      ->type_name("OUT.png");
  command.add_option("--frames", flags.frames, "Draw so many frames and end")
      ->group(group)
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--size", flags.size, "Of the window or picture, in pixels (default 1440x900)")
      ->group(group)
      ->type_name("WxH");
  CLI::Option* light = command.add_flag("--light", flags.light, "Dark on light")->group(group);
  command.add_flag("--dark", flags.dark, "Light on dark")->group(group)->excludes(light);
  command.add_option("--scale", flags.scale, "Of text and everything (default: the monitor's)")
      ->group(group)
      ->check(number_between(0.5, 8));
  command.add_option("--tab", flags.tab, "Which panel of the right column is in front")
      ->group(group)
      ->type_name("NAME");
  command
      .add_option(
          "--select", flags.select,
          "Select rank=N, bucket=N, step=N, param=NAME or element=N (of the parameter); may be repeated")
      ->group(group)
      ->type_name("WHAT")
      ->expected(1)
      ->take_all();
}

void add_at_flag(CLI::App& command, ViewFlags& flags, const std::string& meaning) {
  command.add_option("--at", flags.at, meaning)->group("View")->type_name("AT");
}

void apply_selection(const ViewFlags& flags, viz::Document& document) {
  viz::Selection selection;
  for (const std::string& text : flags.select) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (key == "rank") {
      selection.rank = bounded(text, value, document.info.ranks, "ranks");
    } else if (key == "bucket") {
      selection.bucket = bounded(text, value, static_cast<int>(document.info.buckets.size()), "buckets");
    } else if (key == "param") {
      selection.param = find_param(text, value, document);
    } else if (key == "step" && parse_number(value)) {
      selection.step = static_cast<int>(*parse_number(value));
    } else if (key == "element" && parse_number(value)) {
      selection.element = *parse_number(value);
    } else {
      throw InputError(
          fmt::format("--select {}: expected rank=N, bucket=N, step=N, param=NAME or element=N", text));
    }
  }
  if (selection.element) {
    if (!selection.param) throw InputError("--select element=N needs --select param=NAME before it");
    const std::int64_t elems =
        document.layout == nullptr
            ? 0
            : document.layout->specs[static_cast<std::size_t>(*selection.param)].numel();
    if (*selection.element < 0 || *selection.element >= elems) {
      throw InputError(
          fmt::format("--select element={}: the parameter has {} elements", *selection.element, elems));
    }
  }
  if (selection.param && !selection.bucket && document.layout != nullptr) {
    const ParamLocation& at = document.layout->locations[static_cast<std::size_t>(*selection.param)];
    selection.bucket = document.layout->global_bucket(at.buffer, at.bucket);
  }
  if (!flags.select.empty()) document.selection.set(selection);
}

void show(const ViewFlags& flags, viz::Document document) {
  if (flags.screenshot.empty()) {
    viz::WindowOptions options;
    options.frames = flags.frames;
    options.scale = flags.scale;
    options.tab = flags.tab;
    options.config_folder = viz::config_folder();
    viz::Preferences preferences = viz::load_preferences(options.config_folder);
    if (!flags.size.empty()) std::tie(preferences.width, preferences.height) = parse_size(flags.size);
    if (flags.light || flags.dark) preferences.dark = flags.dark;
    viz::show_window(std::move(document), std::move(preferences), options);
    return;
  }
  // Pictures are the same on every machine: nothing remembered goes into them.
  viz::PictureOptions options;
  options.path = flags.screenshot;
  options.frames = flags.frames;
  options.tab = flags.tab;
  if (flags.scale > 0) options.scale = flags.scale;
  if (!flags.size.empty()) std::tie(options.width, options.height) = parse_size(flags.size);
  viz::Preferences preferences;
  preferences.dark = !flags.light;
  viz::take_picture(std::move(document), std::move(preferences), options);
}

}  // namespace zero1::app
