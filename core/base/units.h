// Sizes, counts and times as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zero1 {

/// "4096", "64KiB", "1.5MiB", "2GB" → bytes. Throws InputError that repeats the text.
std::int64_t parse_bytes(std::string_view text);

/// "40000000", "40M", "64Ki" → a count of elements. Throws InputError that repeats the text.
std::int64_t parse_count(std::string_view text);

std::string format_bytes(std::int64_t bytes);     ///< "1.50 MiB"
std::string format_count(std::int64_t count);     ///< "124,439,808"
std::string format_duration_ns(std::int64_t ns);  ///< "3.21 ms"

}  // namespace zero1
