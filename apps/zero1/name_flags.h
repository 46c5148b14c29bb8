// --rename, --exclude, --transpose and --no-transpose: one language for every command that takes tensors.
#pragma once

#include <CLI/CLI.hpp>

#include "core/data/name_rules.h"

namespace zero1::app {

/// Parsing fills `rules`, which must outlive it.
void add_name_flags(CLI::App& command, NameRules& rules, const std::string& group = "Names");

/// The language of the patterns, for a command's footer.
extern const char* const pattern_help;

}  // namespace zero1::app
