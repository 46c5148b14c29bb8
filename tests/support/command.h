// Runs the project's programs the way people and scripts do.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace zero1::test {

struct Outcome {
  int status = -1;     ///< exit status; -1 when a signal ended it
  std::string output;  ///< standard output and standard error

  bool says(const std::string& part) const { return output.find(part) != std::string::npos; }
};

/// A word for the shell, whatever is in it.
inline std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// Runs a shell command. Standard error is caught also where the command sends standard output elsewhere.
inline Outcome run_command(const std::string& command) {
  FILE* pipe = ::popen(("{ " + command + "\n} 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  std::array<char, 4096> chunk{};
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    outcome.output.append(chunk.data(), count);
  }
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// Runs `zero1 ARGUMENTS`.
inline Outcome run_zero1(const std::string& arguments) {
  return run_command(quoted(ZERO1_BIN_DIR "/zero1") + " " + arguments);
}

}  // namespace zero1::test
