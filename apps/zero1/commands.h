// The subcommands of `zero1`, one source file each.
#pragma once

#include <CLI/CLI.hpp>

namespace zero1::app {

/// Each adds its subcommand to `app`. When the user has chosen it, its callback runs the command and
/// sets `status` (0 success, 1 different or failed); exceptions are left to main.
void add_train_command(CLI::App& app, int& status);
void add_generate_command(CLI::App& app, int& status);
void add_layout_command(CLI::App& app, int& status);
void add_trace_command(CLI::App& app, int& status);
void add_ckpt_command(CLI::App& app, int& status);

}  // namespace zero1::app
