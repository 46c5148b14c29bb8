// Sizes, counts and times as people write and read them.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/range.h"

namespace zero1 {

/// "4096", "64KiB", "1.5MiB", "2GB", "2^20" → bytes. Throws InputError that repeats the text.
std::int64_t parse_bytes(std::string_view text);

/// "40000000", "40M", "64Ki", "1e6" → a count of elements. Throws InputError that repeats the text.
std::int64_t parse_count(std::string_view text);

std::string format_bytes(std::int64_t bytes);     ///< "1.50 MiB"
std::string format_count(std::int64_t count);     ///< "124,439,808"
std::string format_duration_ns(std::int64_t ns);  ///< "3.21 ms"
std::string format_range(const Range& range);     ///< "[0, 65,536)"

/// "1 rank", "1,024 ranks"; `plural` where it is not the noun and an s.
std::string counted(std::int64_t count, std::string_view noun, std::string_view plural = {});

template <std::integral Number>
std::string counted(Number count, std::string_view noun, std::string_view plural = {}) {
  return counted(static_cast<std::int64_t>(count), noun, plural);
}

/// sum += value, but no further than 64 bits go: what a hostile file claims may add up to anything.
inline void add_saturated(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum))
    sum = value > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min() + 1;
}

}  // namespace zero1
