#include "core/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace zero1 {
namespace {

bool continues_char(char c) {
  return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u;
}

/// The control character at the front of `text`, in bytes; 0 where another one is.
std::size_t control_bytes(std::string_view text) {
  const auto code = static_cast<unsigned char>(text[0]);
  if (code < 0x20 || code == 0x7F) return 1;
  const bool c1 = code == 0xC2 && text.size() > 1 && static_cast<unsigned char>(text[1]) < 0xA0 &&
                  continues_char(text[1]);
  return c1 ? 2 : 0;
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
  for (std::size_t i = 0; i < kept.size();) {
    const std::size_t control = control_bytes(kept.substr(i));
    if (control > 0) {
      shown += "\uFFFD";
    } else {
      shown += kept[i];
    }
    i += std::max<std::size_t>(control, 1);
  }
  return kept.size() < text.size() ? shown + "…" : shown;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "_/.=+,-@%:";
  const std::string shown = printable(text);
  const bool is_plain = !shown.empty() && std::all_of(shown.begin(), shown.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || plain.find(c) != plain.npos;
  });
  if (is_plain) return shown;
  std::string word = "'";
  for (const char c : shown) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
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
