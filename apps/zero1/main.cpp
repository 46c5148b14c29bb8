// zero1: the command line of the project.
#include "apps/zero1/command_line.h"
#include "apps/zero1/commands.h"

int main(int argc, char** argv) {
  CLI::App app{
      "Runs Megatron-LM's distributed optimizer (ZeRO-1) for real and makes it visible.\n\n"
      "First steps:\n"
      "  zero1 train --dp 4 --train-iters 50                 train a small GPT on four in-process ranks\n"
      "  zero1 generate DIR --prompt 'What is'               let a trained model write\n"
      "  zero1 train --dp 4 --trace run.trace …              record what happens when\n"
      "  zero1 trace export run.trace run.json               open run.json in https://ui.perfetto.dev\n"
      "  zero1 layout SPEC.json --svg map.svg                draw who owns what\n"
      "  zero1 ckpt inspect DIR                              look into a checkpoint\n\n"
      "`zero1_viz` shows a run in a window.\n"
      "Exit status: 0 success, 1 failed or different, 2 bad usage or input; 130 after Ctrl-C, 143 after "
      "SIGTERM,\n"
      "129 after SIGHUP.",
      "zero1"};
  int status = 0;
  zero1::app::add_train_command(app, status);
  zero1::app::add_generate_command(app, status);
  zero1::app::add_layout_command(app, status);
  zero1::app::add_trace_command(app, status);
  zero1::app::add_ckpt_command(app, status);
  return zero1::app::run_program(app, argc, argv, status);
}
