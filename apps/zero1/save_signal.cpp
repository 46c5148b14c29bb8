#include "apps/zero1/save_signal.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace zero1::app {

namespace {

// What a signal handler may touch.
std::atomic<bool> requested{false};
std::atomic<const char*> words_to_say{nullptr};

void note_request(int) {
  const int saved_errno = errno;
  requested = true;
  const char* words = words_to_say;
  static_cast<void>(!::write(STDERR_FILENO, words, std::strlen(words)));
  errno = saved_errno;
}

}  // namespace

SaveSignal::SaveSignal(const char* words) {
  requested = false;
  words_to_say = words;
  struct sigaction action {};
  action.sa_handler = note_request;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, nullptr, &old_);
  if (old_.sa_handler != SIG_IGN) ::sigaction(SIGUSR1, &action, nullptr);
}

SaveSignal::~SaveSignal() {
  ::sigaction(SIGUSR1, &old_, nullptr);
}

bool SaveSignal::take() {
  return requested.exchange(false);
}

}  // namespace zero1::app
