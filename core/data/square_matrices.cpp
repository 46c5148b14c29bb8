#include "core/data/square_matrices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/text.h"

namespace zero1 {
namespace {

/// The last two parts of a name: "c_proj.weight".
std::string family_of(const std::string& name) {
  const std::size_t last = name.rfind('.');
  if (last == std::string::npos || last == 0) return name;
  const std::size_t before = name.rfind('.', last - 1);
  return before == std::string::npos ? name : name.substr(before + 1);
}

/// One part between dots, for a regular expression.
std::string part_pattern(std::string_view part) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!part.empty() && std::all_of(part.begin(), part.end(), digit)) return "[0-9]+";
  std::string pattern;
  for (const char c : part) {
    if (std::string_view("^$\\.*+?()[]{}|=").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace

std::vector<std::string> undecided_squares(const std::vector<MappedTensor>& tensors,
                                           const std::vector<bool>& turned) {
  if (std::none_of(turned.begin(), turned.end(), [](bool each) { return each; })) return {};
  struct Family {
    bool turned = false;
    bool stays = false;
  };
  std::map<std::string, Family> families;
  const auto is_square = [](const MappedTensor& tensor) { return tensor.shape[0] == tensor.shape[1]; };
  const auto is_matrix = [](const MappedTensor& tensor) {
    return !tensor.excluded && tensor.shape.size() == 2;
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_matrix(tensors[i]) || is_square(tensors[i])) continue;
    Family& family = families[family_of(tensors[i].stored)];
    (turned[i] ? family.turned : family.stays) = true;
  }
  std::vector<std::string> open;
  for (const MappedTensor& tensor : tensors) {
    if (!is_matrix(tensor) || !is_square(tensor) || tensor.shape[0] < 2 || tensor.orientation_said) continue;
    const Family& family = families[family_of(tensor.stored)];
    if (family.turned || !family.stays) open.push_back(tensor.stored);
  }
  return open;
}

std::string pattern_for(const std::vector<std::string>& names) {
  std::vector<std::string> patterns;
  for (const std::string& name : names) {
    std::string pattern;
    for (std::size_t at = 0; at <= name.size();) {
      const std::size_t end = std::min(name.find('.', at), name.size());
      if (at > 0) pattern += "\\.";
      pattern += part_pattern(std::string_view(name).substr(at, end - at));
      at = end + 1;
    }
    if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end()) patterns.push_back(pattern);
  }
  return printable(fmt::format("{}", fmt::join(patterns, "|")));
}

std::string shortened(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", printable(names[i], 200));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace zero1
