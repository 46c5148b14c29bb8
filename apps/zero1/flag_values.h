// Values that flags of several commands take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/layout/param_spec.h"

namespace zero1::app {

/// A bucket size: elements, 1 or more, such as 40M. Throws InputError that names `flag`.
std::int64_t parse_bucket_size(const char* flag, const std::string& text);

/// What --bucket-size of commands that change a layout says: nothing, elements, or none for one bucket per
/// buffer. Sets `elems` accordingly; throws InputError that names the flag.
void apply_bucket_size(const std::string& text, std::optional<std::int64_t>& elems);

/// Whether --expert-dp changes anything.
bool has_expert_params(const std::vector<ParamSpec>& specs);

/// For CLI11's check() of a flag that names an SVG to write: what is wrong with a name that promises another
/// kind of picture, else nothing.
std::string not_an_svg(const std::string& path);

}  // namespace zero1::app
