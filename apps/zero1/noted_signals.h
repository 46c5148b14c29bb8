// Ctrl-C, SIGTERM and SIGHUP, noted instead of ending the program.
#pragma once

#include <array>
#include <csignal>

namespace zero1::app {

/// While it lives, the first of these signals is noted; a second one ends the program at once. Signals that
/// whoever started the program has it ignore (nohup) stay ignored. One at a time.
class NotedSignals {
 public:
  /// `words` go to standard error when a signal is noted: a literal, or null.
  explicit NotedSignals(const char* words = nullptr);
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
  ~NotedSignals();

 private:
  static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals.size()> old_{};
};

/// The signal that has been noted last; 0: none. Any thread.
int noted_signal();

/// Ends the program by the noted signal, as whoever waits for it expects: a shell then ends its script too.
void end_by_noted_signal();

}  // namespace zero1::app
