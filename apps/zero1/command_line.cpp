#include "apps/zero1/command_line.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "core/base/error.h"

namespace zero1::app {

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
  HelpFormatter() { column_width(44); }

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
  return app->get_name() + ": " + error.what() + "\n`" + command + " --help` tells more.\n";
}

void set_formatter(CLI::App& app, const std::shared_ptr<HelpFormatter>& formatter) {
  app.formatter(formatter);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    set_formatter(*command, formatter);
  }
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

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, int& status) {
  let_waiting_threads_sleep(argv);
  try {
    app.require_subcommand(1);
    app.set_version_flag("--version", ZERO1_VERSION);
    app.failure_message(failure_message);
    set_formatter(app, std::make_shared<HelpFormatter>());
    refuse_empty_values(app);
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_bad_input;
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return exit_bad_input;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return exit_failed;
  }
}

}  // namespace zero1::app
