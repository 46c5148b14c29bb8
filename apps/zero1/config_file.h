// A file of flags: one `key = value` a line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zero1::app {

struct ConfigEntry {
  std::string key;
  std::vector<std::string> values;  ///< none for a key alone; several for a list
  std::int64_t line = 0;            ///< from 1
};

/// Reads what TOML and INI have in common: `key = value`, where value is a bare word or words, a text in
/// quotes ("…" with \" \\ \n \t, or '…' as it stands), or a list of either in brackets on one line; a key
/// alone, which turns a flag on; comments from a # on that begins the line or follows a space, and lines that
/// begin with ;. Sections are refused: flags have none. Throws InputError "line 3: what was expected and
/// found".
std::vector<ConfigEntry> parse_config(std::string_view text);

}  // namespace zero1::app
