#include "bench/gpu/figures.h"

#include <fmt/format.h>

namespace zero1::bench {

void Figures::begin_section(const std::string& title) {
  fmt::print("\n{}\n  {:<44}{:>12}{:>12}{:>8}{:>7}  {}\n", title, "", "measured", "bound", "ratio", "goal",
             "unit; bound; note");
  json_["sections"].push_back(
      {{"title", title}, {"skipped", nullptr}, {"figures", nlohmann::ordered_json::array()}});
}

void Figures::add(const Figure& figure) {
  nlohmann::ordered_json entry = {{"name", figure.name}, {"value", figure.value}, {"unit", figure.unit},
                                  {"bound", nullptr},    {"bound_name", nullptr}, {"ratio", nullptr},
                                  {"goal", nullptr},     {"met", nullptr},        {"note", figure.note}};
  std::string bound, ratio, goal;
  if (figure.bound) {
    const double share = figure.value / *figure.bound;
    entry["bound"] = *figure.bound;
    entry["bound_name"] = figure.bound_name;
    entry["ratio"] = share;
    bound = fmt::format("{:.1f}", *figure.bound);
    ratio = fmt::format("{:.2f}", share);
    if (figure.goal) {
      entry["goal"] = *figure.goal;
      entry["met"] = share >= *figure.goal;
      goal = fmt::format("{:.2f}{}", *figure.goal, share >= *figure.goal ? "" : "!");
    }
  }
  fmt::print("  {:<44}{:>12.2f}{:>12}{:>8}{:>7}  {}{}{}\n", figure.name, figure.value, bound, ratio, goal,
             figure.unit, figure.bound_name.empty() ? "" : "; " + figure.bound_name,
             figure.note.empty() ? "" : "; " + figure.note);
  json_["sections"].back()["figures"].push_back(std::move(entry));
}

void Figures::skip(const std::string& why) {
  fmt::print("  skipped: {}\n", why);
  json_["sections"].back()["skipped"] = why;
}

}  // namespace zero1::bench
