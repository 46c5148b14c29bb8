#include "apps/zero1/noted_signals.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

namespace zero1::app {

namespace {

// What a signal handler may touch.
std::atomic<int> noted{0};
std::atomic<const char*> words_to_say{nullptr};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void note_signal(int signal) {
  noted = signal;
  const char* words = words_to_say;
  if (words != nullptr) static_cast<void>(!::write(STDERR_FILENO, words, std::strlen(words)));
}

}  // namespace

NotedSignals::NotedSignals(const char* words) {
  noted = 0;
  words_to_say = words;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) ::sigaction(signals[i], &action, nullptr);
  }
}

NotedSignals::~NotedSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &old_[i], nullptr);
}

int noted_signal() {
  return noted;
}

void end_by_noted_signal() {
  std::signal(noted, SIG_DFL);
  std::raise(noted);
}

}  // namespace zero1::app
