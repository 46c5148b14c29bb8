// zero1_viz: the window of the project.
#include "apps/zero1/command_line.h"
#include "apps/zero1_viz/commands.h"

int main(int argc, char** argv) {
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
  int status = 0;
  zero1::app::add_run_command(app);
  zero1::app::add_open_command(app);
  zero1::app::add_explore_command(app);
  return zero1::app::run_program(app, argc, argv, status);
}
