// The parts of `zero1 ckpt`.
#pragma once

#include <CLI/CLI.hpp>

namespace zero1::app {

/// gather, reshard, export and import: those that write. cmd_ckpt_transform.cpp
void add_ckpt_transforms(CLI::App& ckpt);

}  // namespace zero1::app
