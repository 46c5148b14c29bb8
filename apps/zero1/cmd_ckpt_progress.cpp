#include "apps/zero1/cmd_ckpt_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "apps/zero1/noted_signals.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/terminal.h"
#include "core/base/units.h"

namespace zero1::app {

namespace {

class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

class Line {
 public:
  Line() : begin_ns_(now_ns()) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    if (open_) say(stderr, "\n");  // an error follows
  }

  void show(std::int64_t done, std::int64_t total) {
    const std::int64_t now = now_ns();
    if (done < total && now - shown_ns_ < 100'000'000) return;
    shown_ns_ = now;
    const double seconds = static_cast<double>(now - begin_ns_) * 1e-9;
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    const double left_s = rate > 0 ? static_cast<double>(total - done) / rate : 0;
    say(stderr, "\r{:>4.0f}%  {} of {}  {}/s  {:.0f} s left   ",
        total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0,
        format_bytes(done), format_bytes(total), format_bytes(static_cast<std::int64_t>(rate)), left_s);
    if (done == total) say(stderr, "\n");
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
    if (noted_signal() != 0) throw Interrupted();
  };
}

void run_interruptible(const std::function<void()>& action) {
  try {
    const NotedSignals noted;
    action();
  } catch (const Interrupted&) {
    end_by_noted_signal();
  }
}

}  // namespace zero1::app
