#include "apps/zero1/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/numbers.h"
#include "core/base/terminal.h"

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

/// "zero1 ckpt inspect", as it is called.
std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : path_of(*parent) + " ") + command.get_name();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    names.insert(names.end(), command->get_aliases().begin(), command->get_aliases().end());
  }
  return names;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// What to say of a word that `command` does not know.
std::string unknown_word(const CLI::App& command, const std::string& word, bool wants_command) {
  constexpr std::size_t longest = 80;
  const std::string shown = printable(word, longest);
  if (word.starts_with('-')) {
    const std::string flag = word.substr(0, word.find('='));
    return fmt::format("{} is no flag of `{}`{}", shown, path_of(command),
                       did_you_mean(flag, flag_names(command)));
  }
  if (!wants_command)
    return fmt::format("`{}` takes no further argument, found '{}'", path_of(command), shown);
  const std::vector<std::string> names = command_names(command);
  const std::string hint = did_you_mean(word, names);
  return fmt::format("'{}' is no command of `{}`{}", shown, path_of(command),
                     hint.empty() ? fmt::format("; there are: {}", fmt::join(names, ", ")) : hint);
}

std::string usage_fault(const CLI::App& command, const CLI::Error& error) {
  const std::vector<std::string> unknown = command.remaining();
  const std::vector<std::string> names = command_names(command);
  const bool wants_command = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !names.empty();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr && !wants_command) return error.what();
  if (!unknown.empty()) return unknown_word(command, unknown.front(), wants_command);
  if (wants_command) return fmt::format("a command is missing; there are: {}", fmt::join(names, ", "));
  return error.what();
}

std::string failure_message(const CLI::App* app, const CLI::Error& error) {
  const CLI::App* chosen = app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return fmt::format("{}: {}\n`{} --help` tells more.\n", app->get_name(),
                     printable_message(usage_fault(*chosen, error)), path_of(*chosen));
}

void set_formatter(CLI::App& app, const std::shared_ptr<HelpFormatter>& formatter) {
  app.formatter(formatter);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    set_formatter(*command, formatter);
  }
}

/// Rewrites a whole number as plain digits, which is what CLI11 reads. Returns what is wrong with it; empty:
/// nothing.
std::string read_whole(std::string& value, bool is_signed, std::uint64_t most, const char* limit) {
  const std::string found = fmt::format(", found '{}'", value);
  const std::optional<WholeNumber> number = parse_whole(value);
  if (!number || (number->negative && !is_signed))
    return fmt::format("expected a whole number{}{}", is_signed ? "" : " of 0 or more", found);
  if (!number->digits || *number->digits > most)
    return fmt::format("expected a number {} {}{}", number->negative ? "above -" : "below", limit, found);
  value = fmt::format("{}{}", number->negative ? "-" : "", *number->digits);
  return "";
}

std::string read_real(std::string& value) {
  const std::string found = fmt::format(", found '{}'", value);
  const std::optional<double> number = parse_real(value);
  if (!number) return "expected a finite number" + found;
  if (!std::isfinite(*number)) return "expected a number that fp64 can hold" + found;
  value = fmt::format("{}", *number);  // the shortest text of these very bits
  return "";
}

/// Reads a value of an option whose type is called `type` and rewrites numbers as CLI11 reads them. CLI11
/// itself would say that it could not convert the value and not what was expected, and cut a seed to 64 bits.
std::string read_value(const std::string& type, std::string& value) {
  // An empty value is a variable of a script that was not set, never what somebody wants.
  if (value.empty()) return "the value is empty";
  constexpr std::uint64_t most_int = std::numeric_limits<std::int32_t>::max();
  if (type.starts_with("INT")) return read_whole(value, true, most_int, "2^31");
  if (type.starts_with("UINT"))
    return read_whole(value, false, std::numeric_limits<std::uint64_t>::max(), "2^64");
  if (type.starts_with("FLOAT")) return read_real(value);
  return "";
}

/// In front of each option's own checks, which then see numbers as they are.
void read_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    const std::string type = option->get_type_name();
    option->transform(
        CLI::Validator([type](std::string& value) { return read_value(type, value); }, std::string()));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) read_values(*command);
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, int& status) {
  claim_standard_files();
  let_waiting_threads_sleep(argv);
  const auto fail = [&](int exit_status, const char* message) {
    std::fflush(stdout);  // what comes before the failure is read before it
    say(stderr, "{}: {}\n", app.get_name(), Message{message});
    return exit_status;
  };
  try {
    try {
      app.require_subcommand(1);
      app.set_version_flag("--version", ZERO1_VERSION);
      app.failure_message(failure_message);
      set_formatter(app, std::make_shared<HelpFormatter>());
      read_values(app);
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      std::ostringstream help;
      if (app.exit(error, help, std::cerr) != 0) return exit_bad_input;
      print_lines(help.str());
    }
    finish_output();
    return status;
  } catch (const InputError& error) {
    return fail(exit_bad_input, error.what());
  } catch (const std::bad_alloc&) {
    return fail(exit_failed, "out of memory: the sizes asked for need more than this machine gives");
  } catch (const std::exception& error) {
    return fail(exit_failed, error.what());
  }
}

}  // namespace zero1::app
