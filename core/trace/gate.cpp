#include "core/trace/gate.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>

#include "core/base/error.h"

namespace zero1::trace {

namespace {

enum class Mode : std::uint8_t { running, paused, until_bucket, until_phase, until_iteration, until_match };

struct Waiter {
  Event event;
  bool released = false;
};

}  // namespace

bool Breakpoint::matches(const Event& event) const {
  return (!kind || *kind == event.kind) && (!rank || *rank == event.rank) &&
         (!bucket || *bucket == event.bucket) && (!param || *param == event.param) &&
         (!step || *step == event.step) && (!layer || *layer == event.layer) &&
         (!detail || *detail == event.detail) && (!from_step || event.step >= *from_step);
}

struct Gate::Impl {
  mutable std::mutex mutex;
  std::condition_variable released;       ///< for the run's threads
  mutable std::condition_variable stops;  ///< for controllers
  std::list<Waiter*> waiters;             ///< held, in order of arrival; the waiters live on their stacks
  Mode mode = Mode::running;
  bool shut = false;
  int bucket = -1;         ///< of the last released event that has one
  Kind kind = Kind::none;  ///< of the last released event
  Breakpoint target;       ///< of run_to
  std::vector<Breakpoint> breakpoints;

  bool is_open() const { return shut || (mode == Mode::running && breakpoints.empty()); }

  bool at_breakpoint(const Event& event) const {
    return std::any_of(breakpoints.begin(), breakpoints.end(),
                       [&](const Breakpoint& breakpoint) { return breakpoint.matches(event); });
  }

  /// Is the event one that the command under way runs up to?
  bool is_target(const Event& event) const {
    switch (mode) {
      case Mode::running: return false;
      case Mode::paused: return true;
      case Mode::until_bucket: return event.bucket >= 0 && event.bucket != bucket;
      case Mode::until_phase: return event.kind != kind;
      case Mode::until_iteration: return event.kind == Kind::step;
      case Mode::until_match: return target.matches(event);
    }
    return true;
  }

  void note_released(const Event& event) {
    if (event.bucket >= 0) bucket = event.bucket;
    kind = event.kind;
  }

  void release(std::list<Waiter*>::iterator position) {
    note_released((*position)->event);
    (*position)->released = true;
    waiters.erase(position);
  }

  void release_all() {
    while (!waiters.empty()) release(waiters.begin());
  }

  void release_oldest() {
    if (!waiters.empty()) release(waiters.begin());
  }

  /// Releases the oldest and starts `next`; of the other held events, those go on that are no target of it.
  void step_until(Mode next) {
    release_oldest();
    mode = next;
    for (auto it = waiters.begin(); it != waiters.end();) {
      const auto current = it++;
      if (!is_target((*current)->event)) release(current);
    }
  }

  /// Runs `command` under the lock, then publishes what it changed.
  template <class Command>
  void control(std::atomic<bool>& open, Command command) {
    const std::lock_guard lock(mutex);
    if (!shut) command();
    open.store(is_open(), std::memory_order_relaxed);
    released.notify_all();
    stops.notify_all();
  }
};

Gate::Gate() : impl_(std::make_unique<Impl>()) {}
Gate::~Gate() = default;

void Gate::hold(const Event& event) {
  std::unique_lock lock(impl_->mutex);
  if (impl_->is_open()) return;
  const bool at_breakpoint = impl_->at_breakpoint(event);
  if (!at_breakpoint && !impl_->is_target(event)) {
    impl_->note_released(event);
    return;
  }
  // Every rank runs on to its own next step; whatever else has been found ends its command.
  if (at_breakpoint || impl_->mode != Mode::until_iteration) impl_->mode = Mode::paused;
  Waiter waiter{event};
  impl_->waiters.push_back(&waiter);
  impl_->stops.notify_all();
  impl_->released.wait(lock, [&] { return waiter.released; });
}

void Gate::run() {
  impl_->control(open_, [this] {
    impl_->mode = Mode::running;
    impl_->release_all();
  });
}

void Gate::pause() {
  impl_->control(open_, [this] { impl_->mode = Mode::paused; });
}

void Gate::step_event() {
  impl_->control(open_, [this] {
    impl_->mode = Mode::paused;
    impl_->release_oldest();
  });
}

void Gate::step_bucket() {
  impl_->control(open_, [this] { impl_->step_until(Mode::until_bucket); });
}

void Gate::step_phase() {
  impl_->control(open_, [this] { impl_->step_until(Mode::until_phase); });
}

void Gate::step_iteration() {
  impl_->control(open_, [this] {
    impl_->mode = Mode::until_iteration;
    impl_->release_all();
  });
}

void Gate::run_to(Breakpoint target) {
  impl_->control(open_, [&] {
    impl_->target = target;
    impl_->mode = Mode::until_match;
    impl_->release_all();
  });
}

void Gate::set_breakpoints(std::vector<Breakpoint> breakpoints) {
  impl_->control(open_, [&] { impl_->breakpoints = std::move(breakpoints); });
}

std::vector<Breakpoint> Gate::breakpoints() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->breakpoints;
}

std::vector<Event> Gate::held() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Event> events;
  for (const Waiter* waiter : impl_->waiters) events.push_back(waiter->event);
  return events;
}

bool Gate::wait_held(std::int64_t timeout_ms) const {
  std::unique_lock lock(impl_->mutex);
  return impl_->stops.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                               [this] { return !impl_->waiters.empty(); });
}

bool Gate::wait_stopped(std::int64_t timeout_ms) const {
  std::unique_lock lock(impl_->mutex);
  const auto stopped = [this] {
    const bool holds = impl_->mode == Mode::paused || impl_->mode == Mode::until_iteration;
    return holds && !impl_->waiters.empty();
  };
  impl_->stops.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                        [&] { return impl_->shut || stopped(); });
  return stopped();
}

bool Gate::running() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->shut || impl_->mode == Mode::running;
}

void Gate::shutdown() noexcept {
  impl_->control(open_, [this] {
    impl_->shut = true;
    impl_->release_all();
  });
}

void Gate::stop() noexcept {
  stopped_.store(true, std::memory_order_relaxed);
  shutdown();
}

void Gate::throw_stopped() {
  throw Error("the run was stopped");
}

}  // namespace zero1::trace
