// JSON that nobody vouches for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace zero1 {

/// Reads JSON text. The library alone would keep the last of two equal keys and follow any depth of nesting,
/// also when it writes a value into a message; here both are errors. Takes time in proportion to the text.
/// Throws InputError "not JSON: …", "the field 'x' appears twice in one object" or "nested deeper than N
/// levels", each short whatever the text holds.
nlohmann::json parse_strict_json(std::string_view text, int max_depth);

/// The same, objects keep the order of their fields.
nlohmann::ordered_json parse_strict_ordered_json(std::string_view text, int max_depth);

}  // namespace zero1
