// Numbers as people write them on a command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zero1 {

/// A whole number that was read: sign and digits; `digits` is empty where it needs more than 64 bits.
struct WholeNumber {
  bool negative = false;
  std::optional<std::uint64_t> digits;
};

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// "12", "+12", "-3", "1e6", "1.5e3", "2^32". Nothing where the text is not a whole number: words, "1.5",
/// also "010", which is 8 for one program and 10 for the next.
std::optional<WholeNumber> parse_whole(std::string_view text);

/// A number that need not be whole: the above and "+0.001", "1e-8", "2^-14". Infinite where fp64 cannot hold
/// it, nothing where the text is not a finite number.
std::optional<double> parse_real(std::string_view text);

}  // namespace zero1
