// zero1: the command line of the project.
#include <cstdio>
#include <exception>

#include "apps/zero1/commands.h"
#include "apps/zero1/waiting_threads.h"
#include "core/base/error.h"

namespace {

constexpr int exit_failed = 1;
constexpr int exit_bad_input = 2;

int run(int argc, char** argv) {
  CLI::App app{
      "Runs Megatron-LM's distributed optimizer (ZeRO-1) for real and makes it visible.\n\n"
      "First steps:\n"
      "  zero1 train --dp 4 --train-iters 50                 train a small GPT on four in-process ranks\n"
      "  zero1 train --dp 4 --trace run.trace …              record what happens when\n"
      "  zero1 trace export run.trace run.json               open run.json in https://ui.perfetto.dev\n"
      "  zero1 layout SPEC.json --svg map.svg                draw who owns what\n"
      "  zero1 ckpt inspect DIR                              look into a checkpoint\n\n"
      "Exit status: 0 success, 1 failed or different, 2 bad usage or input.",
      "zero1"};
  app.require_subcommand(1);
  app.set_version_flag("--version", ZERO1_VERSION);
  app.get_formatter()->column_width(44);
  int status = 0;
  zero1::app::add_train_command(app, status);
  zero1::app::add_layout_command(app, status);
  zero1::app::add_trace_command(app, status);
  zero1::app::add_ckpt_command(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_bad_input;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  zero1::app::let_waiting_threads_sleep(argv);
  try {
    return run(argc, argv);
  } catch (const zero1::InputError& error) {
    std::fprintf(stderr, "zero1: %s\n", error.what());
    return exit_bad_input;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zero1: %s\n", error.what());
    return exit_failed;
  }
}
