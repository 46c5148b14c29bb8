// zero1 train: runs what the flags ask for, and reports.
#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/zero1/commands.h"
#include "apps/zero1/name_flags.h"
#include "apps/zero1/noted_signals.h"
#include "apps/zero1/train_job.h"
#include "apps/zero1/train_report.h"
#include "ckpt/folder.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/text.h"

namespace zero1::app {

namespace {

int run_train(const TrainOptions& options) {
  flush_each_line();  // whoever reads a log that goes into a file sees how far the run is
  TrainJob job(options);
  const TrainConfig& config = job.config();
  const MachineFactory make_machine = job.machine();
  print_header(config);
  job.print_origin();
  for (const std::string& note : job.notes()) say("note: {}\n", note);
  TrainObserver observer;
  observer.on_step = [&](const StepMetrics& step) {
    const bool due = options.log_interval > 0 && step.step % options.log_interval == 0;
    if (due || (options.log_interval > 0 && step.valid_loss)) print_step(config, step);
  };
  const NotedSignals noted("\nzero1: stopping after this iteration (again: at once)\n");
  observer.stop_requested = [] { return noted_signal() != 0; };
  job.observe(observer);
  const TrainSummary summary = train(config, observer, make_machine);
  job.finish();
  print_summary(config, summary);
  if (job.saver()) {
    say("Checkpoints: {} saved, the last is {}\n", job.saver()->published().size(),
        job.saver()->published().back());
    if (const auto best = ckpt::linked_step(options.save.folder, ckpt::best_name); options.save.best && best)
      say("Best: {}/{}, step {}\n", options.save.folder, ckpt::best_name, *best);
  }
  if (job.time_is_up() && summary.last_step < config.train_iters) {
    say("Ended after step {} of {}: the {:g} minutes of --exit-duration-in-mins are over{}\n",
        summary.last_step, config.train_iters, *options.exit_duration_in_mins,
        job.saver() ? "; go on with --load " + shell_word(options.save.folder) : "");
  }
  job.draw(summary);
  finish_output();
  if (noted_signal() != 0) end_by_noted_signal();
  return 0;
}

}  // namespace

void add_train_command(CLI::App& app, int& status) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* cmd =
      app.add_subcommand("train", "Train a model on in-process ranks with the whole ZeRO-1 pipeline");
  cmd->footer(
      std::string(pattern_help) +
      "\n\nExamples:\n"
      "  zero1 train --dp 4 --train-iters 50\n"
      "  zero1 train --dp 4 --data book.txt --bf16 --overlap-grad-reduce --overlap-param-gather \\\n"
      "              --ddp-num-buckets 8 --link-gbps 1 --trace run.trace --svg map.svg\n"
      "SIGINT (Ctrl-C), SIGTERM and SIGHUP end the run after the iteration it is in: it saves (--save), "
      "reports,\n"
      "writes its outputs and ends by the signal (exit status 130 after SIGINT, 143 after SIGTERM, 129 "
      "after\n"
      "SIGHUP); a second one ends it at once. SIGUSR1 saves after the iteration, and the run goes on.\n"
      "Exit status otherwise: 0 success, 1 failed, 2 bad usage or input.\n"
      "Numbers may be written as 1000000, 1e6 or 2^20.\n"
      "The loss is the mean over the global batch; it does not depend on --dp beyond rounding.");
  cmd->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as in Megatron
  add_train_flags(*cmd, *options);
  cmd->callback([cmd, options, &status] {
    complete_train_flags(*cmd, *options);
    status = run_train(*options);
  });
}

}  // namespace zero1::app
