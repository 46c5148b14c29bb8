#include "apps/zero1/config_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace zero1::app {
namespace {

constexpr std::size_t longest_shown = 60;
constexpr std::string_view spaces = " \t\r\v\f";

std::string_view trimmed(std::string_view text) {
  const std::size_t start = text.find_first_not_of(spaces);
  if (start == text.npos) return {};
  return text.substr(start, text.find_last_not_of(spaces) + 1 - start);
}

bool is_key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// One line, read from front to back.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(trimmed(line)) {}

  bool says_nothing() const { return rest_.empty() || rest_[0] == '#' || rest_[0] == ';'; }

  ConfigEntry entry() {
    if (rest_[0] == '[') {
      fail(
          fmt::format("'{}' begins a section; flags have none: write `key = value`, key as the flag without "
                      "dashes in front",
                      printable(rest_, longest_shown)));
    }
    ConfigEntry entry;
    const std::size_t equals = rest_.find_first_of("=#");
    const bool has_value = equals != rest_.npos && rest_[equals] == '=';
    entry.key = std::string(trimmed(rest_.substr(0, equals)));
    if (entry.key.empty() || !std::all_of(entry.key.begin(), entry.key.end(), is_key_char)) {
      fail(fmt::format("expected `key = value`, found '{}'", printable(rest_, longest_shown)));
    }
    if (!has_value) return entry;
    skip(equals + 1);
    if (!rest_.empty() && rest_[0] == '[') {
      entry.values = list();
    } else {
      entry.values.push_back(value(""));
    }
    if (!rest_.empty() && rest_[0] != '#') {
      fail(fmt::format("expected nothing behind the value of '{}', found '{}'", entry.key,
                       printable(rest_, longest_shown)));
    }
    return entry;
  }

 private:
  [[noreturn]] static void fail(const std::string& why) { throw InputError(why); }

  void skip(std::size_t chars) { rest_ = trimmed(rest_.substr(chars)); }

  /// A text in quotes, or all up to one of `ends`, a comment or the end of the line.
  std::string value(std::string_view ends) {
    if (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'')) return quoted();
    std::size_t end = 0;
    while (end < rest_.size() && ends.find(rest_[end]) == ends.npos && !comment_begins(end)) ++end;
    const std::string bare(trimmed(rest_.substr(0, end)));
    skip(end);
    return bare;
  }

  bool comment_begins(std::size_t at) const {
    return rest_[at] == '#' && (at == 0 || spaces.find(rest_[at - 1]) != spaces.npos);
  }

  std::string quoted() {
    const char quote = rest_[0];
    std::string text;
    for (std::size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        skip(i + 1);
        return text;
      }
      const bool escapes = quote == '"' && rest_[i] == '\\' && i + 1 < rest_.size();
      text += escapes ? escaped(rest_[++i]) : rest_[i];
    }
    fail(fmt::format("the text that begins with {} does not end on its line", quote));
  }

  static char escaped(char c) {
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case '"':
      case '\\': return c;
      default:
        fail(fmt::format("expected \\\", \\\\, \\n or \\t behind a backslash, found '{}'",
                         printable(std::string_view(&c, 1))));
    }
  }

  std::vector<std::string> list() {
    std::vector<std::string> values;
    skip(1);
    while (true) {
      if (!rest_.empty() && rest_[0] == ']') {
        skip(1);
        return values;
      }
      values.push_back(value(",]"));
      if (rest_.empty() || (rest_[0] != ',' && rest_[0] != ']')) {
        fail("the list has no ] on its line, or no comma between two of its values");
      }
      if (rest_[0] == ',') skip(1);
    }
  }

  std::string_view rest_;
};

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view text) {
  std::vector<ConfigEntry> entries;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    LineReader line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.says_nothing()) continue;
    try {
      entries.push_back(line.entry());
      entries.back().line = number;
    } catch (const InputError& error) {
      throw InputError(fmt::format("line {}: {}", number, error.what()));
    }
  }
  return entries;
}

}  // namespace zero1::app
