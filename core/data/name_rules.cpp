#include "core/data/name_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/square_matrices.h"

namespace zero1 {
namespace {

constexpr std::string_view language = "the stored name, or a regular expression (ECMAScript) for all of it";

/// One PATTERN.
class Pattern {
 public:
  Pattern(std::string flag, std::string text, const std::set<std::string_view>& names)
      : flag_(std::move(flag)), is_name_(names.contains(text)), text_(std::move(text)) {
    if (text_.empty())
      throw InputError(fmt::format("{}: the pattern is empty; expected {}", flag_, language));
    if (is_name_) return;
    try {
      regex_.assign(text_, std::regex::ECMAScript);
    } catch (const std::regex_error& error) {
      throw InputError(fmt::format("{}: '{}' is neither a stored name nor a regular expression: {}", flag_,
                                   printable(text_), error.what()));
    }
  }

  /// The groups, the whole name first; nothing where the name does not match.
  std::optional<std::vector<std::string>> match(const std::string& name) const {
    if (is_name_) return name == text_ ? std::optional(std::vector{name}) : std::nullopt;
    // The library's search takes stack for every byte.
    constexpr std::size_t longest = 512;
    if (name.size() > longest) {
      throw InputError(fmt::format("{}: a name of {} is too long for a pattern: {}", flag_,
                                   counted(name.size(), "byte"), printable(name, 80)));
    }
    std::smatch found;
    try {
      if (!std::regex_match(name, found, regex_)) return std::nullopt;
    } catch (const std::regex_error& error) {
      throw InputError(fmt::format("{}: gives up on '{}': {}", flag_, printable(name), error.what()));
    }
    return std::vector<std::string>(found.begin(), found.end());
  }

  const std::string& flag() const { return flag_; }

  /// The pattern has decided about a tensor; or it would have, had an earlier one not.
  void note_used() { used_ = true; }
  void note_late() { late_ = true; }
  bool used() const { return used_; }
  bool late() const { return late_; }

 private:
  std::string flag_;  ///< as messages name it: "--exclude x"
  bool is_name_;
  std::string text_;
  std::regex regex_;
  bool used_ = false;
  bool late_ = false;
};

/// --rename OLD=NEW.
struct Rename {
  Pattern old_name;
  std::string new_name;

  std::string expand(const std::vector<std::string>& groups) const {
    std::string result;
    for (std::size_t i = 0; i < new_name.size(); ++i) {
      const char c = new_name[i];
      const char next = i + 1 < new_name.size() ? new_name[i + 1] : '\0';
      const bool digit = next >= '0' && next <= '9';
      if (digit && (c == '\\' || c == '$')) {
        const auto group = static_cast<std::size_t>(next - '0');
        if (group >= groups.size()) {
          throw InputError(fmt::format("{}: {}{} stands for a group that OLD does not have: it has {}",
                                       old_name.flag(), c, group, groups.size() - 1));
        }
        result += groups[group];
        ++i;
      } else if (c == '\\' && next == '\\') {
        result += '\\';
        ++i;
      } else {
        result += c;
      }
    }
    if (result.empty()) throw InputError(fmt::format("{}: the new name is empty", old_name.flag()));
    if (!is_utf8(result)) {
      throw InputError(fmt::format("{}: the new name '{}' is not UTF-8", old_name.flag(), printable(result)));
    }
    return result;
  }
};

/// Cuts at the first '=' that is neither written \= nor part of a look-ahead (?=.
Rename parse_rename(const std::string& text, const std::set<std::string_view>& names) {
  const std::string flag = fmt::format("--rename {}", printable(text));
  for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    const bool escaped = at > 0 && text[at - 1] == '\\';
    const bool look_ahead = at > 1 && text[at - 1] == '?' && text[at - 2] == '(';
    if (escaped || look_ahead) continue;
    if (at == 0) throw InputError(fmt::format("{}: the old name is missing; expected OLD=NEW", flag));
    if (at + 1 == text.size()) throw InputError(fmt::format("{}: the new name is missing", flag));
    return {Pattern(flag, text.substr(0, at), names), text.substr(at + 1)};
  }
  throw InputError(fmt::format("{}: expected OLD=NEW; OLD is {}", flag, language));
}

std::vector<Pattern> parse_patterns(const char* flag, const std::vector<std::string>& texts,
                                    const std::set<std::string_view>& names) {
  std::vector<Pattern> patterns;
  for (const std::string& text : texts)
    patterns.emplace_back(fmt::format("{} {}", flag, printable(text)), text, names);
  return patterns;
}

bool any_matches(std::vector<Pattern>& patterns, const std::string& name) {
  bool found = false;
  for (Pattern& pattern : patterns) {
    if (!pattern.match(name)) continue;
    pattern.note_used();
    found = true;
  }
  return found;
}

void refuse_unused(const Pattern& pattern, const char* what, const std::vector<NamedShape>& tensors,
                   const std::string& source) {
  if (pattern.used()) return;
  if (pattern.late()) {
    throw InputError(
        fmt::format("{}: an earlier --rename decides about every tensor that it matches; the first that "
                    "matches decides, so name the narrower one first",
                    pattern.flag()));
  }
  throw InputError(fmt::format("{}: matches no {} of {}{}; a pattern is {}", pattern.flag(), what, source,
                               tensors.empty() ? ""
                                               : fmt::format(", where names look like '{}'",
                                                             printable(tensors[tensors.size() / 2].name, 80)),
                               language));
}

/// The tensor whose state each tensor is, or nothing. NAME.exp_avg.exp_avg is a tensor of its own where
/// NAME.exp_avg is a state.
struct Owner {
  std::size_t tensor;
  std::string_view suffix;
};
std::vector<std::optional<Owner>> owners_of(const std::vector<NamedShape>& tensors, StateTensors states) {
  std::vector<std::optional<Owner>> owners(tensors.size());
  if (states == StateTensors::none) return owners;
  std::map<std::string_view, std::size_t> by_name;  // a name comes behind its beginnings
  for (std::size_t i = 0; i < tensors.size(); ++i) by_name[tensors[i].name] = i;
  for (const auto& [name, tensor] : by_name) {
    for (const std::string_view suffix : {".exp_avg", ".exp_avg_sq"}) {
      if (!name.ends_with(suffix)) continue;
      const auto owner = by_name.find(name.substr(0, name.size() - suffix.size()));
      if (owner != by_name.end() && !owners[owner->second]) owners[tensor] = Owner{owner->second, suffix};
    }
  }
  return owners;
}

void refuse_collisions(const std::vector<MappedTensor>& tensors, const std::string& source) {
  std::map<std::string_view, const MappedTensor*> names;
  for (const MappedTensor& tensor : tensors) {
    if (tensor.excluded) continue;
    const auto [other, is_new] = names.emplace(tensor.name, &tensor);
    if (is_new) continue;
    throw InputError(fmt::format(
        "--rename: '{}' and '{}' of {} would both be called '{}'; leave one out with --exclude, or "
        "give it another name",
        printable(other->second->stored), printable(tensor.stored), source, printable(tensor.name)));
  }
}

class Mapping {
 public:
  Mapping(const NameRules& rules, const std::vector<NamedShape>& tensors, const std::string& source)
      : tensors_(tensors), source_(source) {
    for (const NamedShape& tensor : tensors) names_.insert(tensor.name);
    for (const std::string& text : rules.renames) renames_.push_back(parse_rename(text, names_));
    excludes_ = parse_patterns("--exclude", rules.excludes, names_);
    transposes_ = parse_patterns("--transpose", rules.transposes, names_);
    as_stored_ = parse_patterns("--no-transpose", rules.as_stored, names_);
  }

  std::vector<MappedTensor> run(StateTensors states) {
    const std::vector<std::optional<Owner>> owners = owners_of(tensors_, states);
    std::vector<MappedTensor> result;
    for (const NamedShape& tensor : tensors_) {
      result.push_back({tensor.name, tensor.name, tensor.shape});
      result.back().excluded = any_matches(excludes_, tensor.name);
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!owners[i] && !result[i].excluded) decide(result[i]);
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (owners[i]) follow(result[i], result[owners[i]->tensor], owners[i]->suffix);
    }
    check_use();
    refuse_collisions(result, source_);
    return result;
  }

 private:
  void decide(MappedTensor& tensor) {
    bool decided = false;
    for (Rename& rename : renames_) {
      const auto groups = rename.old_name.match(tensor.stored);
      if (!groups) continue;
      if (decided) {
        rename.old_name.note_late();
        continue;
      }
      rename.old_name.note_used();
      tensor.name = rename.expand(*groups);
      decided = true;
    }
    if (tensor.shape.size() < 2) return;
    const bool stays = any_matches(as_stored_, tensor.stored);
    const bool turns = any_matches(transposes_, tensor.stored) && !stays;
    tensor.orientation_said = stays || turns;
    if (!turns) return;
    if (tensor.shape.size() > 2) {
      throw InputError(
          fmt::format("--transpose: '{}' has {} dimensions, only matrices can be transposed; "
                      "except it with --no-transpose",
                      printable(tensor.stored), tensor.shape.size()));
    }
    std::swap(tensor.shape[0], tensor.shape[1]);
    tensor.transposed = true;
  }

  static void follow(MappedTensor& state, const MappedTensor& owner, std::string_view suffix) {
    state.is_state = true;
    state.excluded = state.excluded || owner.excluded;
    state.name = owner.name + std::string(suffix);
    if (!owner.transposed || state.shape.size() != 2) return;
    std::swap(state.shape[0], state.shape[1]);
    state.transposed = state.orientation_said = true;
  }

  void check_use() const {
    for (const Rename& rename : renames_) refuse_unused(rename.old_name, "tensor", tensors_, source_);
    for (const Pattern& pattern : excludes_) refuse_unused(pattern, "tensor", tensors_, source_);
    for (const auto* patterns : {&transposes_, &as_stored_}) {
      for (const Pattern& pattern : *patterns) refuse_unused(pattern, "matrix", tensors_, source_);
    }
  }

  const std::vector<NamedShape>& tensors_;
  const std::string& source_;
  std::set<std::string_view> names_;
  std::vector<Rename> renames_;
  std::vector<Pattern> excludes_, transposes_, as_stored_;
};

}  // namespace

std::vector<MappedTensor> map_tensors(const NameRules& rules, const std::vector<NamedShape>& tensors,
                                      StateTensors states, const std::string& source) {
  std::vector<MappedTensor> mapped = Mapping(rules, tensors, source).run(states);
  std::vector<bool> turned;
  for (const MappedTensor& tensor : mapped) turned.push_back(tensor.transposed);
  const std::vector<std::string> open = undecided_squares(mapped, turned);
  if (!open.empty()) {
    throw InputError(fmt::format(
        "{}: --transpose says nothing of these square matrices, whose shape does not tell whether "
        "they are stored as the others are: {}. --transpose '{}' transposes {} too, --no-transpose "
        "'{}' leaves {} as stored",
        source, shortened(open), pattern_for(open), open.size() == 1 ? "it" : "them", pattern_for(open),
        open.size() == 1 ? "it" : "them"));
  }
  return mapped;
}

std::vector<std::string> describe(const std::vector<MappedTensor>& tensors) {
  std::vector<std::string> excluded;
  std::vector<std::string> transposed;
  std::size_t renamed = 0;
  for (const MappedTensor& tensor : tensors) {
    if (tensor.excluded) {
      excluded.push_back(tensor.stored);
      continue;
    }
    if (tensor.is_state) continue;
    if (tensor.transposed) transposed.push_back(tensor.stored);
    if (tensor.name != tensor.stored) ++renamed;
  }
  std::vector<std::string> lines;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    lines.push_back(fmt::format("{}: {}: {}", what, counted(names.size(), "tensor"), shortened(names)));
  };
  add("left out by --exclude", excluded);
  add("transposed", transposed);
  if (renamed > 0) lines.push_back(fmt::format("renamed: {}", counted(renamed, "tensor")));
  return lines;
}

bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
      ++i;
      ++j;
      continue;
    }
    const auto number = [&](std::string_view text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t start = at;
      while (at < text.size() && digit(text[at])) ++at;
      return text.substr(start, at - start);
    };
    const std::string_view left = number(a, i);
    const std::string_view right = number(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if (i < a.size() || j < b.size()) return i == a.size();
  return a < b;  // they differ in zeros in front at most
}

std::vector<float> transpose(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<float> result(values.size());
  constexpr std::int64_t tile = 32;  // both sides of one stay in the cache
  for (std::int64_t r0 = 0; r0 < rows; r0 += tile) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += tile) {
      for (std::int64_t r = r0; r < std::min(rows, r0 + tile); ++r) {
        for (std::int64_t c = c0; c < std::min(columns, c0 + tile); ++c) {
          result[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * columns + c)];
        }
      }
    }
  }
  return result;
}

}  // namespace zero1
