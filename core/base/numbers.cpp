#include "core/base/numbers.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace zero1 {

namespace {

/// All of `text` as digits; nothing where there are none or something else. Saturates.
std::optional<std::int64_t> parse_exponent(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !(is_digit(text[0]) || text[0] == '-')) return std::nullopt;
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (stop != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range)
    return text[0] == '-' ? std::numeric_limits<std::int32_t>::min()
                          : std::numeric_limits<std::int32_t>::max();
  return value;
}

/// "2^32" taken apart; nothing for text without a power.
struct Power {
  std::uint64_t base = 0;
  std::int64_t exponent = 0;
};

std::optional<Power> parse_power(std::string_view text) {
  const std::size_t hat = text.find('^');
  if (hat == std::string_view::npos) return std::nullopt;
  Power power;
  const std::string_view base = text.substr(0, hat);
  const std::optional<std::int64_t> exponent = parse_exponent(text.substr(hat + 1));
  const auto [stop, error] = std::from_chars(base.data(), base.data() + base.size(), power.base);
  if (!exponent || error != std::errc() || stop != base.data() + base.size()) return std::nullopt;
  power.exponent = *exponent;
  return power;
}

/// value *= factor, `times` times; nothing where 64 bits do not hold it.
std::optional<std::uint64_t> multiplied(std::uint64_t value, std::uint64_t factor, std::int64_t times) {
  if (value == 0) return 0;
  for (std::int64_t i = 0; i < times && factor != 1; ++i) {
    if (__builtin_mul_overflow(value, factor, &value)) return std::nullopt;
    if (value == 0) return 0;
  }
  return value;
}

/// "1.5e3" without its sign.
std::optional<WholeNumber> parse_decimal(std::string_view text) {
  std::int64_t exponent = 0;
  if (const std::size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    const std::optional<std::int64_t> parsed = parse_exponent(text.substr(e + 1));
    if (!parsed) return std::nullopt;
    exponent = *parsed;
    text = text.substr(0, e);
  }
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string_view fraction = point == std::string_view::npos ? "" : text.substr(point + 1);
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) return std::nullopt;
  std::optional<std::uint64_t> digits = 0;
  for (const std::string_view part : {whole, fraction}) {
    for (const char c : part) {
      if (!is_digit(c)) return std::nullopt;
      std::uint64_t next = 0;
      const bool fits = digits && !__builtin_mul_overflow(*digits, std::uint64_t{10}, &next) &&
                        !__builtin_add_overflow(next, static_cast<std::uint64_t>(c - '0'), &next);
      digits = fits ? std::optional(next) : std::nullopt;
    }
  }
  exponent -= static_cast<std::int64_t>(fraction.size());
  for (; exponent < 0 && digits && *digits != 0; ++exponent) {
    if (*digits % 10 != 0) return std::nullopt;  // a part of one
    *digits /= 10;
  }
  return WholeNumber{false, digits ? multiplied(*digits, 10, exponent) : std::nullopt};
}

}  // namespace

std::optional<WholeNumber> parse_whole(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::optional<WholeNumber> number;
  if (const std::optional<Power> power = parse_power(text)) {
    if (power->exponent < 0) return std::nullopt;
    number = WholeNumber{false, multiplied(1, power->base, power->exponent)};
  } else {
    number = parse_decimal(text);
  }
  if (number) number->negative = negative && number->digits != std::uint64_t{0};
  return number;
}

std::optional<double> parse_real(std::string_view text) {
  const double sign = text.starts_with('-') ? -1 : 1;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (const std::optional<Power> power = parse_power(text))
    return sign * std::pow(static_cast<double>(power->base), static_cast<double>(power->exponent));
  if (text.empty() || !(is_digit(text[0]) || text[0] == '.')) return std::nullopt;  // a word: inf, nan
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (stop != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  if (error != std::errc()) return std::nullopt;
  return sign * value;
}

}  // namespace zero1
