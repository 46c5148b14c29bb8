#include "apps/zero1/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

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
  return fmt::format("{}: {}\n`{} --help` tells more.\n", app->get_name(), usage_fault(*chosen, error),
                     path_of(*chosen));
}

void set_formatter(CLI::App& app, const std::shared_ptr<HelpFormatter>& formatter) {
  app.formatter(formatter);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    set_formatter(*command, formatter);
  }
}

template <class Number>
std::string number_fault(const std::string& value, const char* expected, const char* too_large) {
  Number number{};
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  const std::string found = ", found '" + value + "'";
  if (error == std::errc::result_out_of_range) return too_large + found;
  const std::size_t digits = value.starts_with('-') ? 1 : 0;
  // What others read as octal is refused: 010 is 8 for one program and 10 for the next.
  const bool octal = std::is_integral_v<Number> && value.size() > digits + 1 && value[digits] == '0';
  if (error != std::errc() || stop != end || octal) return expected + found;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) return expected + found;
  }
  return "";
}

/// What is wrong with a value of an option whose type is called `type`; empty: nothing. CLI11 itself would
/// say that it could not convert the value and not what was expected, and cut a seed to 64 bits.
std::string value_fault(const std::string& type, const std::string& value) {
  // An empty value is a variable of a script that was not set, never what somebody wants.
  if (value.empty()) return "the value is empty";
  if (type.starts_with("INT"))
    return number_fault<std::int32_t>(value, "expected a whole number", "expected a number below 2^31");
  if (type.starts_with("UINT"))
    return number_fault<std::uint64_t>(value, "expected a whole number of 0 or more",
                                       "expected a number below 2^64");
  if (type.starts_with("FLOAT"))
    return number_fault<double>(value, "expected a finite number", "expected a number that fp64 can hold");
  return "";
}

void check_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    const std::string type = option->get_type_name();
    option->check([type](const std::string& value) { return value_fault(type, value); });
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) check_values(*command);
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, int& status) {
  let_waiting_threads_sleep(argv);
  try {
    app.require_subcommand(1);
    app.set_version_flag("--version", ZERO1_VERSION);
    app.failure_message(failure_message);
    set_formatter(app, std::make_shared<HelpFormatter>());
    check_values(app);
    app.parse(argc, argv);
    return status;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_bad_input;
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return exit_bad_input;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory: the sizes asked for need more than this machine gives\n",
                 app.get_name().c_str());
    return exit_failed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return exit_failed;
  }
}

}  // namespace zero1::app
