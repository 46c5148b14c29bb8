// --at: which event of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/trace/gate.h"

namespace zero1::app {

/// A whole number and nothing else.
std::optional<std::int64_t> parse_number(std::string_view text);

/// "3", "3:adamw", "3:collective_issue:2": step, kind and bucket. Throws InputError naming --at.
trace::Breakpoint parse_at(const std::string& text);

}  // namespace zero1::app
