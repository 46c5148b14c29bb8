// What the long commands of `zero1 ckpt` share: a line that shows how far they are, and an orderly end on
// Ctrl-C.
#pragma once

#include <cstdint>
#include <functional>

namespace zero1::app {

/// After every buffer: how many bytes of how many are done.
using Progress = std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)>;

/// On a terminal, one line that is rewritten as work goes on: share, bytes, bytes per second, time left.
/// Nothing elsewhere. Inside run_interruptible it throws once the user has interrupted.
Progress progress_line();

/// Runs `action`, which calls a progress_line(). Ctrl-C, SIGTERM and SIGHUP end it at its next call, so that
/// it removes what it has written; then the program ends by that signal. A second one ends it at once.
void run_interruptible(const std::function<void()>& action);

}  // namespace zero1::app
