#include "apps/zero1_viz/at_flag.h"

#include <fmt/core.h>

#include <charconv>
#include <climits>
#include <vector>

#include "core/base/error.h"

namespace zero1::app {

namespace {

[[noreturn]] void fail_at(const std::string& text) {
  throw InputError(
      fmt::format("--at {}: expected STEP, STEP:KIND or STEP:KIND:BUCKET, such as 3, 3:adamw or "
                  "3:collective_issue:2; kinds are those that the event log can be filtered by",
                  text));
}

int parse_part(const std::string& whole, std::string_view part) {
  const auto value = parse_number(part);
  if (!value || *value < 0 || *value > INT_MAX) fail_at(whole);
  return static_cast<int>(*value);
}

trace::Kind parse_kind(const std::string& whole, std::string_view part) {
  for (int kind = 1; kind < 256; ++kind) {
    const std::string_view known = name(static_cast<trace::Kind>(kind));
    if (known == part && known != "unknown") return static_cast<trace::Kind>(kind);
  }
  fail_at(whole);
}

}  // namespace

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

trace::Breakpoint parse_at(const std::string& text) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = text;;) {
    const std::size_t colon = rest.find(':');
    parts.push_back(rest.substr(0, colon));
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) fail_at(text);
  trace::Breakpoint at;
  at.step = parse_part(text, parts[0]);
  if (parts.size() > 1) at.kind = parse_kind(text, parts[1]);
  if (parts.size() > 2) at.bucket = parse_part(text, parts[2]);
  return at;
}

}  // namespace zero1::app
