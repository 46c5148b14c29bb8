// zero1_viz: the window of the project.
#include <cstdio>
#include <exception>

#include "apps/zero1/waiting_threads.h"
#include "apps/zero1_viz/commands.h"
#include "core/base/error.h"

namespace {

constexpr int exit_failed = 1;
constexpr int exit_bad_input = 2;

int run(int argc, char** argv) {
  CLI::App app{
      "Shows Megatron-LM's distributed optimizer (ZeRO-1) at work: who owns what, and what hides behind "
      "what.\n\n"
      "First steps:\n"
      "  zero1_viz run --dp 4 --paused                       train on four ranks, event by event\n"
      "  zero1_viz explore                                   turn ranks and bucket size, see who owns what\n"
      "  zero1_viz open run.trace                            look at a recording\n"
      "  zero1_viz open run.trace --screenshot out.png       the same as a picture, without a display\n\n"
      "In the window, F1 lists keys and mouse of every panel.\n"
      "Exit status: 0 success, 1 failed, 2 bad usage or input.",
      "zero1_viz"};
  app.require_subcommand(1);
  app.set_version_flag("--version", ZERO1_VERSION);
  app.get_formatter()->column_width(40);
  zero1::app::add_run_command(app);
  zero1::app::add_open_command(app);
  zero1::app::add_explore_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_bad_input;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  zero1::app::let_waiting_threads_sleep(argv);
  try {
    return run(argc, argv);
  } catch (const zero1::InputError& error) {
    std::fprintf(stderr, "zero1_viz: %s\n", error.what());
    return exit_bad_input;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zero1_viz: %s\n", error.what());
    return exit_failed;
  }
}
