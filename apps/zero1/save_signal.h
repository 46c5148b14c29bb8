// SIGUSR1: save a checkpoint after this iteration, and go on.
#pragma once

#include <csignal>

namespace zero1::app {

/// While it lives, SIGUSR1 is noted instead of ending the program. A signal that whoever started the program
/// has it ignore stays ignored. One at a time.
class SaveSignal {
 public:
  /// `words` go to standard error when it comes: a literal.
  explicit SaveSignal(const char* words);
  SaveSignal(const SaveSignal&) = delete;
  SaveSignal& operator=(const SaveSignal&) = delete;
  ~SaveSignal();

  /// Whether it has come since the last call. Any thread.
  static bool take();

 private:
  struct sigaction old_ {};
};

}  // namespace zero1::app
