#include "core/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace zero1 {
namespace {

bool continues_char(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

/// One character of a text: its code and length, or one byte that is not part of UTF-8.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool valid = true;
};

/// The character at the front of `text`, which is not empty. Longer spellings than need be and surrogates are
/// not UTF-8.
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  const Character invalid{lead, 1, false};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return invalid;
  std::uint32_t code = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!continues_char(text[i])) return invalid;
    code = code << 6u | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || code > 0x10FFFF || surrogate) return invalid;
  return {code, bytes};
}

/// Whether a terminal acts on it, or shows what follows it elsewhere than where it stands.
bool is_control(std::uint32_t code) {
  const bool c0_del_c1 = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool bidirectional = code == 0x061C || code == 0x200E || code == 0x200F ||
                             (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return c0_del_c1 || separator || bidirectional;
}

std::string escaped(const Character& character) {
  if (!character.valid) return fmt::format("\\x{:02x}", character.code);
  switch (character.code) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  return character.code < 0x80 ? fmt::format("\\x{:02x}", character.code)
                               : fmt::format("\\u{:04x}", character.code);
}

/// Appends `text`, escaped.
void append_printable(std::string& shown, std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.valid || is_control(character.code)) {
      shown += escaped(character);
    } else {
      shown += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
}

/// Damerau and Levenshtein's distance, each letter moved at most once.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::string_view kept = text.substr(0, longest);
  if (kept.size() < text.size()) {
    std::size_t end = kept.size();
    while (end > 0 && continues_char(text[end])) --end;
    kept = text.substr(0, end);
  }
  std::string shown;
  shown.reserve(kept.size());
  append_printable(shown, kept);
  return kept.size() < text.size() ? shown + "…" : shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    append_printable(shown, text.substr(begin, end - begin));
    if (end < text.size()) shown += '\n';
    begin = end + 1;
  }
  return shown;
}

std::string printable_message(std::string_view message) {
  constexpr std::string_view detail = "\n  ";
  std::string shown;
  bool has_details = false;
  while (true) {
    const std::size_t end = message.find('\n');
    append_printable(shown, message.substr(0, end));
    if (end == std::string_view::npos) return shown;
    has_details = has_details || message.substr(end).starts_with(detail);
    shown += has_details ? "\n" : "\\n";
    message.remove_prefix(end + 1);
  }
}

std::string printable_json(std::string_view json) {
  std::string shown;
  shown.reserve(json.size());
  while (!json.empty()) {
    const Character character = first_character(json);
    if (character.code >= 0x7F && (!character.valid || is_control(character.code))) {
      shown += fmt::format("\\u{:04x}", character.valid ? character.code : 0xFFFDu);
    } else {
      shown += json.substr(0, character.bytes);
    }
    json.remove_prefix(character.bytes);
  }
  return shown;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.valid) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::size_t char_count(std::string_view utf8) {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return !continues_char(c); }));
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t longest = 100;  // nobody mistypes more, and the distance takes the product of lengths
  if (word.empty() || word.size() > longest) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = (word.size() + 2) / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance || distance >= candidate.size()) continue;
    best = &candidate;
    best_distance = distance;
  }
  if (best != nullptr) return *best;
  for (const std::string& candidate : candidates) {
    if (!candidate.starts_with(word)) continue;
    if (best != nullptr) return std::nullopt;
    best = &candidate;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::optional<std::string> meant = nearest(word, candidates);
  return meant ? fmt::format("; did you mean '{}'?", *meant) : "";
}

}  // namespace zero1
