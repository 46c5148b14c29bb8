// Flags of `zero1 train` that mean something only beside another, or never beside it.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/zero1/train_flags.h"

namespace zero1::app {

/// After all flags are known: refuses one that would change nothing, naming it and the flag that it lacks or
/// contradicts. What a run with other values of the same flags would use is not refused but noted in
/// `options.notes`: a command is repeated with one rank, or with --load. Throws InputError.
void check_flag_pairs(const CLI::App& cmd, TrainOptions& options);

}  // namespace zero1::app
