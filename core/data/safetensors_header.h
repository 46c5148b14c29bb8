// The JSON header of a safetensors file, apart from any file: text to entries and back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/data/safetensors.h"

namespace zero1 {

/// The format's own limit on the header's length.
inline constexpr std::int64_t max_safetensors_header_bytes = 100'000'000;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their data, which they tile without gaps
  std::map<std::string, std::string> metadata;
};

/// Validates the whole header against a data section of `data_bytes`; throws InputError that names
/// `path`, the tensor, what was expected and what was found.
SafetensorsHeader parse_safetensors_header(const std::string& text, std::int64_t data_bytes,
                                           const std::string& path);

/// The header's text, padded with spaces to a multiple of 8 bytes, so that data that begins behind it is
/// aligned. Throws InputError when it would pass the format's limit or a name is not UTF-8.
std::string encode_safetensors_header(const SafetensorsHeader& header, const std::string& path);

/// A name out of a file as a message shows it: in quotes, cut at 80 bytes, control characters replaced.
std::string in_quotes(std::string_view text);

}  // namespace zero1
