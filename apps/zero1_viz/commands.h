// The subcommands of `zero1_viz`.
#pragma once

#include <CLI/CLI.hpp>

namespace zero1::app {

/// Each adds its subcommand, whose callback does the work; exceptions are left to main.
void add_run_command(CLI::App& app);
void add_open_command(CLI::App& app);
void add_explore_command(CLI::App& app);

}  // namespace zero1::app
