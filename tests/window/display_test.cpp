// One real window, on a virtual display, with real key presses.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"

using namespace std::chrono_literals;
using zero1::test::Outcome;
using zero1::test::quoted;
using zero1::test::run_command;
using zero1::test::TemporaryFolder;

namespace {

/// A process that ends with the test.
class Process {
 public:
  Process(const std::vector<std::string>& words, const std::string& output) {
    std::fflush(stdout);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    if (std::freopen(output.c_str(), "w", stdout) == nullptr || ::dup2(1, 2) < 0) ::_exit(126);
    std::vector<char*> arguments;
    for (const std::string& word : words)
      arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT: execvp
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  bool running() {
    if (pid_ <= 0) return false;
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
    pid_ = -1;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return false;
  }
  int status() const { return status_; }

 private:
  pid_t pid_ = -1;
  int status_ = -2;
};

/// Asks again and again, for as long as a slow machine may need.
bool comes_true(const std::function<bool()>& question) {
  for (const auto end = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < end;) {
    if (question()) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

bool installed(const char* program) {
  return run_command(std::string("command -v ") + program).status == 0;
}

/// What the display shows: the server keeps it in a file.
std::string screen(const TemporaryFolder& home) {
  return home.read("Xvfb_screen0");
}

}  // namespace

TEST_CASE("a real window opens, takes keys, remembers, and quits") {
  for (const char* program : {"Xvfb", "xdotool"}) {
    if (installed(program)) continue;
    MESSAGE("[skipped] " << std::string(program) << " is not installed");
    return;
  }
  const TemporaryFolder home;
  // The server chooses a free number and tells it.
  const std::string number_file = home / "display";
  Process server({"sh", "-c",
                  "exec Xvfb -displayfd 3 -screen 0 1000x700x24 -nolisten tcp -fbdir " + quoted(home.path()) +
                      " 3>" + quoted(number_file)},
                 home / "server.log");
  std::string number;
  REQUIRE_MESSAGE(comes_true([&] {
                    return std::getline(std::ifstream(number_file) >> std::ws, number) && !number.empty();
                  }),
                  home.read("server.log"));
  const std::string display = ":" + number;
  const auto xdotool = [&](const std::string& arguments) {
    return run_command("DISPLAY=" + display + " timeout 20 xdotool " + arguments);
  };

  const std::string empty_screen = screen(home);
  Process window({"env", "DISPLAY=" + display, "HOME=" + home.path(), "XDG_CONFIG_HOME=",
                  ZERO1_BIN_DIR "/zero1_viz", "explore", "--dp", "4", "--size", "960x640"},
                 home / "window.log");
  REQUIRE_MESSAGE(comes_true([&] {
                    if (!window.running()) return true;
                    return xdotool("search --name 'ZeRO-1 Lab'").status == 0 && screen(home) != empty_screen;
                  }),
                  home.read("window.log"));
  REQUIRE_MESSAGE(window.running(), home.read("window.log"));
  CHECK(xdotool("search --sync --name 'ZeRO-1 Lab' windowfocus").status == 0);

  std::string before;
  const auto stands_still = [&] {
    return comes_true([&] {
      const std::string earlier = std::exchange(before, screen(home));
      std::this_thread::sleep_for(1s);
      return before == earlier && before == screen(home);
    });
  };
  CHECK(stands_still());
  const auto changes_on = [&](const char* key) {
    // A key may come before the window has the focus: it is pressed again, but not while a slow machine may
    // still be drawing what the first one did, since most keys undo themselves.
    const bool changed = comes_true([&] {
      if (!window.running()) return true;
      xdotool(std::string("key ") + key);
      for (int look = 0; look < 150 && screen(home) == before; ++look) std::this_thread::sleep_for(100ms);
      return screen(home) != before;
    });
    CHECK(stands_still());
    CHECK_MESSAGE(changed, std::string(key));
    CHECK(window.running());
  };
  changes_on("F1");
  changes_on("Escape");
  changes_on("ctrl+t");
  CHECK(comes_true([&] {
    if (!window.running()) return true;
    xdotool("key ctrl+q");
    std::this_thread::sleep_for(100ms);
    return !window.running();
  }));
  INFO(home.read("window.log"));
  CHECK(window.status() == 0);
  const std::string remembered = home.read(".config/zero1_lab/window.conf");
  CHECK(remembered.find("width = 960") != std::string::npos);
  CHECK(remembered.find("theme = ") != std::string::npos);

  // And it ends by itself after so many frames.
  const Outcome frames =
      run_command("DISPLAY=" + display + " HOME=" + quoted(home.path()) + " XDG_CONFIG_HOME= timeout 100 " +
                  quoted(ZERO1_BIN_DIR "/zero1_viz") + " explore --frames 3");
  INFO(frames.output);
  CHECK(frames.status == 0);
}
