#include "core/base/units.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/base/numbers.h"

namespace zero1 {
namespace {

constexpr std::string_view prefixes = "KMGTPE";

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

/// "", "K", "Ki", … → 1, 1000, 1024, …; with `unit` 'B' also "B", "KB", "KiB". Case does not matter.
std::optional<std::uint64_t> parse_suffix(std::string_view suffix, char unit) {
  if (!suffix.empty() && unit != '\0' && upper(suffix.back()) == unit) suffix.remove_suffix(1);
  if (suffix.empty()) return 1;
  const std::size_t power = prefixes.find(upper(suffix[0]));
  const bool binary = suffix.size() == 2 && upper(suffix[1]) == 'I';
  if (power == std::string_view::npos || (suffix.size() > 1 && !binary)) return std::nullopt;
  std::uint64_t factor = 1;
  for (std::size_t i = 0; i <= power; ++i) factor *= binary ? 1024 : 1000;
  return factor;
}

/// A decimal number as digits / scale, so that "0.1" stays exact.
struct Decimal {
  std::uint64_t digits = 0;
  std::uint64_t scale = 1;
};

/// Reads the number at the front of `text` and removes it. Empty on no digits or overflow, with `text` as
/// it was on overflow.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal value;
  bool any_digit = false;
  bool in_fraction = false;
  std::size_t used = 0;
  for (; used < text.size(); ++used) {
    const char c = text[used];
    if (c == '.' && !in_fraction) {
      in_fraction = true;
      continue;
    }
    if (!is_digit(c)) break;
    any_digit = true;
    if (__builtin_mul_overflow(value.digits, std::uint64_t{10}, &value.digits) ||
        __builtin_add_overflow(value.digits, static_cast<std::uint64_t>(c - '0'), &value.digits)) {
      return std::nullopt;
    }
    if (in_fraction && __builtin_mul_overflow(value.scale, std::uint64_t{10}, &value.scale)) {
      return std::nullopt;
    }
  }
  text.remove_prefix(used);
  if (!any_digit) return std::nullopt;
  return value;
}

std::int64_t parse(std::string_view text, char unit, std::string_view what, std::string_view examples) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const auto fail = [&](std::string_view reason) -> std::int64_t {
    throw InputError(fmt::format("'{}' is not {}: {} (examples: {})", text, what, reason, examples));
  };
  if (const auto whole = parse_whole(text); whole && !whole->negative) {  // also 1e6 and 2^20
    if (whole->digits.value_or(most + 1) > most) return fail("it is too large");
    return static_cast<std::int64_t>(*whole->digits);
  }
  std::string_view rest = text;
  if (!rest.empty() && rest[0] == '-') return fail("it is negative");
  if (rest.size() > 1 && rest[0] == '+' && is_digit(rest[1])) rest.remove_prefix(1);
  const std::optional<Decimal> number = take_decimal(rest);
  if (!number) return fail(!rest.empty() && is_digit(rest[0]) ? "it is too large" : "expected a number");
  while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  const std::optional<std::uint64_t> factor = parse_suffix(rest, unit);
  if (!factor) return fail(fmt::format("unknown suffix '{}'", rest));

  const std::uint64_t common = std::gcd(*factor, number->scale);
  const std::uint64_t divisor = number->scale / common;
  if (number->digits % divisor != 0) return fail("it is not whole");
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(number->digits / divisor, *factor / common, &result) || result > most) {
    return fail("it is too large");
  }
  return static_cast<std::int64_t>(result);
}

std::uint64_t magnitude(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? ~bits + 1 : bits;  // negating the smallest int64 would overflow
}

/// "12.34" of a value in some unit; `limit` is where the next unit starts. Empty if it rounds up to it.
std::optional<std::string> two_decimals(double value, double limit) {
  std::string text = fmt::format("{:.2f}", value);
  if (value < limit && text != fmt::format("{:.2f}", limit)) return text;
  return std::nullopt;
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  return parse(text, 'B', "a size in bytes", "4096, 64KiB, 1.5MiB, 2GB");
}

std::int64_t parse_count(std::string_view text) {
  return parse(text, '\0', "a count", "40000000, 40M, 64Ki");
}

std::string format_bytes(std::int64_t bytes) {
  const std::string_view sign = bytes < 0 ? "-" : "";
  const std::uint64_t size = magnitude(bytes);
  if (size < 1024) return fmt::format("{}{} B", sign, size);
  double value = static_cast<double>(size);
  for (const char prefix : prefixes) {
    value /= 1024;
    if (const auto text = two_decimals(value, 1024)) return fmt::format("{}{} {}iB", sign, *text, prefix);
  }
  return fmt::format("{}{:.2f} EiB", sign, value);
}

std::string format_count(std::int64_t count) {
  const std::string digits = fmt::format("{}", magnitude(count));
  std::string text(count < 0 ? 1 : 0, '-');
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string format_range(const Range& range) {
  return fmt::format("[{}, {})", format_count(range.start), format_count(range.end));
}

std::string counted(std::int64_t count, std::string_view noun, std::string_view plural) {
  const bool regular = count != 1 && plural.empty();
  return fmt::format("{} {}{}", format_count(count), count == 1 || regular ? noun : plural,
                     regular ? "s" : "");
}

std::string format_duration_ns(std::int64_t ns) {
  const std::string_view sign = ns < 0 ? "-" : "";
  const std::uint64_t size = magnitude(ns);
  if (size < 1000) return fmt::format("{}{} ns", sign, size);
  double value = static_cast<double>(size);
  for (const std::string_view unit : {"µs", "ms", "s"}) {
    value /= 1000;
    if (const auto text = two_decimals(value, unit == "s" ? 60 : 1000)) {
      return fmt::format("{}{} {}", sign, *text, unit);
    }
  }
  const std::uint64_t seconds = size / 1'000'000'000 + (size % 1'000'000'000 >= 500'000'000 ? 1 : 0);
  if (seconds < 3600) return fmt::format("{}{} min {:02} s", sign, seconds / 60, seconds % 60);
  const std::uint64_t minutes = seconds / 60;
  return fmt::format("{}{} h {:02} min", sign, minutes / 60, minutes % 60);
}

}  // namespace zero1
