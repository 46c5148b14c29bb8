// The SPEC that says what a layout is computed from.
#pragma once

#include <string>

namespace zero1::app {

/// A JSON file's text, or what a recording says of its run's layout; "-" is the standard input. Throws
/// InputError.
std::string layout_spec_text(const std::string& path);

}  // namespace zero1::app
