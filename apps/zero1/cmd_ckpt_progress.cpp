#include "apps/zero1/cmd_ckpt_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace zero1::app {

namespace {

/// The only thing that a signal handler may write to; 0: none has come.
volatile std::sig_atomic_t interrupting_signal = 0;

void note_signal(int signal) {
  interrupting_signal = signal;
}

class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

/// While it lives, signals are noted, each once.
class NotedSignals {
 public:
  NotedSignals() {
    interrupting_signal = 0;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    for (std::size_t i = 0; i < signals.size(); ++i) {
      ::sigaction(signals[i], nullptr, &old_[i]);
      if (old_[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &action, nullptr);  // nohup ignores them
    }
  }
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
  ~NotedSignals() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &old_[i], nullptr);
  }

 private:
  static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals.size()> old_{};
};

class Line {
 public:
  Line() : begin_ns_(now_ns()) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    if (open_) fmt::print(stderr, "\n");  // an error follows
  }

  void show(std::int64_t done, std::int64_t total) {
    const std::int64_t now = now_ns();
    if (done < total && now - shown_ns_ < 100'000'000) return;
    shown_ns_ = now;
    const double seconds = static_cast<double>(now - begin_ns_) * 1e-9;
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    const double left_s = rate > 0 ? static_cast<double>(total - done) / rate : 0;
    fmt::print(stderr, "\r{:>4.0f}%  {} of {}  {}/s  {:.0f} s left   {}",
               total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0,
               format_bytes(done), format_bytes(total), format_bytes(static_cast<std::int64_t>(rate)), left_s,
               done == total ? "\n" : "");
    open_ = done < total;
  }

 private:
  std::int64_t begin_ns_;
  std::int64_t shown_ns_ = 0;
  bool open_ = false;  ///< the cursor stands behind the line
};

}  // namespace

Progress progress_line() {
  const auto line = isatty(STDERR_FILENO) != 0 ? std::make_shared<Line>() : nullptr;
  return [line](std::int64_t done, std::int64_t total) {
    if (line) line->show(done, total);
    if (interrupting_signal != 0) throw Interrupted();
  };
}

void run_interruptible(const std::function<void()>& action) {
  try {
    const NotedSignals noted;
    action();
  } catch (const Interrupted&) {
    // As whoever waits for the program expects it: a shell then ends its script too.
    const int signal = interrupting_signal;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace zero1::app
