// What the project's programs have in common on the command line: start, help, errors, exit status.
#pragma once

#include <CLI/CLI.hpp>

namespace zero1::app {

/// Runs a program whose `app` has its name, help and subcommands; their callbacks do the work and may set
/// `status`. Returns the exit status: 2 with a message on bad usage and on InputError, 1 on every
/// other exception, else what `status` holds in the end. Starts the process again once where the OpenMP
/// library must be told something before main.
int run_program(CLI::App& app, int argc, char** argv, int& status);

}  // namespace zero1::app
