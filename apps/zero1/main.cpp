// zero1: the command line of the project.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "apps/zero1/commands.h"
#include "core/base/error.h"

namespace {

constexpr int exit_failed = 1;
constexpr int exit_bad_input = 2;

/// GCC's OpenMP lets threads that wait for each other spin for milliseconds. Where the machine is busy, that
/// takes the cores from those they wait for: a run of one rank on two threads took 10 times as long beside
/// two other programs. The setting is read once, before main, so the program starts itself again with it.
/// Who has set it keeps it; where starting again fails, the program goes on as it is.
void let_waiting_threads_sleep(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 1);  // what it takes by itself when it has more threads than cores
  ::execv("/proc/self/exe", argv);
}

/// Help as people write flags: CLI11 shows `--no-x{false}` for the flag that switches x off.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string names = CLI::Formatter::make_option_name(option, is_positional);
    const std::string off = "{false}";
    for (auto at = names.find(off); at != std::string::npos; at = names.find(off))
      names.erase(at, off.size());
    return names;
  }
};

std::string failure_message(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* chosen = app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  std::string command = chosen->get_name();
  for (const CLI::App* parent = chosen->get_parent(); parent != nullptr; parent = parent->get_parent()) {
    command = parent->get_name() + " " + command;
  }
  return "zero1: " + std::string(error.what()) + "\n`" + command + " --help` tells more.\n";
}

/// An empty value is a variable of a script that was not set, never what somebody wants.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    option->check(
        [](const std::string& value) { return std::string(value.empty() ? "the value is empty" : ""); });
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*command);
}

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
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(44);
  app.failure_message(failure_message);
  int status = 0;
  zero1::app::add_train_command(app, status);
  zero1::app::add_layout_command(app, status);
  zero1::app::add_trace_command(app, status);
  zero1::app::add_ckpt_command(app, status);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_bad_input;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  let_waiting_threads_sleep(argv);
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
