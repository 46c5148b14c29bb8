// One real window, on a virtual display, with real key presses.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/skip.h"
#include "tests/window/window_support.h"
#include "viz/panels/theme.h"

using namespace std::chrono_literals;
using zero1::test::Outcome;
using zero1::test::quoted;
using zero1::test::run_command;
using zero1::test::TemporaryFolder;
using zero1::viz::Picture;
using zero1::viz::Theme;
using zero1::viz::test::count_colour;
using zero1::viz::test::different_pixels;

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
  for (const auto end = std::chrono::steady_clock::now() + 120s; std::chrono::steady_clock::now() < end;) {
    if (question()) return true;
    std::this_thread::sleep_for(50ms);
  }
  return false;
}

bool installed(const char* program) {
  return run_command(std::string("command -v ") + program).status == 0;
}

/// What the display shows: the server keeps it in a file, in the format of xwd. Empty until it is there.
Picture screen(const TemporaryFolder& home) {
  const std::string file = home.read("Xvfb_screen0");
  const auto word = [&](std::size_t index) {
    std::size_t value = 0;
    for (std::size_t i = 4 * index; i < 4 * index + 4; ++i)
      value = value * 256 + static_cast<unsigned char>(file[i]);
    return value;
  };
  if (file.size() < 100) return {};
  const std::size_t width = word(4);
  const std::size_t height = word(5);
  const std::size_t line = word(12);
  const std::size_t start = word(0) + 12 * word(19);  // behind the header and its colours
  REQUIRE(word(11) == 32);
  if (file.size() < start + line * height) return {};
  Picture picture{static_cast<int>(width), static_cast<int>(height), {}};
  picture.pixels.reserve(4 * width * height);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const auto* pixel = reinterpret_cast<const unsigned char*>(&file[start + y * line + 4 * x]);
      picture.pixels.insert(picture.pixels.end(), {pixel[2], pixel[1], pixel[0], 255});
    }
  }
  return picture;
}

/// A virtual display and one window on it.
struct Desk {
  TemporaryFolder home;
  std::string number;
  Process server{{"sh", "-c",
                  "exec Xvfb -displayfd 3 -screen 0 1000x700x24 -nolisten tcp -fbdir " + quoted(home.path()) +
                      " 3>" + quoted(home / "display")},
                 home / "server.log"};

  Desk() {
    // The server chooses a free number and tells it once it is ready.
    const bool ready = comes_true(
        [&] { return std::getline(std::ifstream(home / "display") >> std::ws, number) && !number.empty(); });
    REQUIRE_MESSAGE(ready, home.read("server.log"));
  }
  std::string display() const { return ":" + number; }
  bool xdotool(const std::string& arguments) const {
    const Outcome outcome = run_command("DISPLAY=" + display() + " timeout 60 xdotool " + arguments);
    INFO(outcome.output);
    CHECK_MESSAGE(outcome.status == 0, arguments);
    return outcome.status == 0;
  }
  std::vector<std::string> environment() const {
    return {"env", "DISPLAY=" + display(), "HOME=" + home.path(), "XDG_CONFIG_HOME="};
  }
};

/// Zero1_viz on a desk: what is pressed, and what then shows.
struct Window {
  Desk& desk;
  Process process;

  explicit Window(Desk& at) : desk(at), process(command(at), at.home / "window.log") {}

  static std::vector<std::string> command(const Desk& desk) {
    std::vector<std::string> words = desk.environment();
    for (const char* word : {ZERO1_BIN_DIR "/zero1_viz", "explore", "--dp", "4", "--size", "960x640"})
      words.emplace_back(word);
    return words;
  }
  /// Waits until the screen is as `shows` wants it; false where the window ends before.
  bool comes_to_show(const std::function<bool(const Picture&)>& shows) {
    const bool shown = comes_true([&] {
      if (!process.running()) return true;
      const Picture now = screen(desk.home);
      return !now.pixels.empty() && shows(now);
    });
    return shown && process.running();
  }
  std::string log() const { return desk.home.read("window.log"); }
};

bool is_drawn(const Picture& picture) {
  const Theme theme;
  for (int rank = 0; rank < 4; ++rank) {
    if (count_colour(picture, theme.rank(rank, 4)) < 200) return false;
  }
  return true;
}

/// Under the help page too, which dims what lies behind it.
bool is_dark(const Picture& picture) {
  std::size_t dark = 0;
  for (std::size_t i = 0; i < picture.pixels.size(); i += 4) dark += picture.pixels[i] < 96 ? 1 : 0;
  return dark > picture.pixels.size() / 4 / 2;
}

}  // namespace

TEST_CASE("a real window opens, takes every key, remembers, and quits") {
  for (const char* program : {"Xvfb", "xdotool"}) {
    if (installed(program)) continue;
    zero1::test::skip(fmt::format("{} is not installed", program));
    return;
  }
  Desk desk;
  Window window(desk);
  REQUIRE_MESSAGE(window.comes_to_show(is_drawn), window.log());
  REQUIRE(desk.xdotool("search --sync --name 'ZeRO-1 Lab' windowfocus --sync"));
  const Picture before = screen(desk.home);
  const Theme theme;
  const int map_pixels = count_colour(before, theme.rank(0, 4));
  const auto whole_map = [&](const Picture& now) {  // not behind the help page
    return is_drawn(now) && count_colour(now, theme.rank(0, 4)) > map_pixels * 9 / 10;
  };
  const auto covered = [&](const Picture& now) { return different_pixels(before, now) > 40'000; };

  // Each key is pressed once, and must do what it does.
  desk.xdotool("key F1");
  CHECK(window.comes_to_show(covered));
  desk.xdotool("key Escape");
  CHECK(window.comes_to_show([&](const Picture& now) { return !covered(now); }));
  desk.xdotool("key ctrl+t");
  CHECK(window.comes_to_show([&](const Picture& now) { return !is_dark(now) && whole_map(now); }));

  // Strokes that come faster than frames are drawn; only the last one leads to what is waited for. Within one
  // millisecond GLFW takes two of the same key for one.
  desk.xdotool("key --delay 8 ctrl+t ctrl+t ctrl+t ctrl+t ctrl+t F1");
  CHECK(window.comes_to_show([&](const Picture& now) { return is_dark(now) && covered(now); }));
  desk.xdotool("key --delay 8 F1 F1 F1 ctrl+t ctrl+t ctrl+t");
  CHECK(window.comes_to_show([&](const Picture& now) { return !is_dark(now) && whole_map(now); }));

  desk.xdotool("key ctrl+q");
  CHECK(comes_true([&] { return !window.process.running(); }));
  INFO(window.log());
  CHECK(window.process.status() == 0);
  const std::string remembered = desk.home.read(".config/zero1_lab/window.conf");
  CHECK(remembered.find("width = 960") != std::string::npos);
  CHECK(remembered.find("theme = light") != std::string::npos);

  // And it ends by itself after so many frames.
  const Outcome frames = run_command("DISPLAY=" + desk.display() + " HOME=" + quoted(desk.home.path()) +
                                     " XDG_CONFIG_HOME= timeout 100 " + quoted(ZERO1_BIN_DIR "/zero1_viz") +
                                     " explore --frames 3");
  INFO(frames.output);
  CHECK(frames.status == 0);
}
