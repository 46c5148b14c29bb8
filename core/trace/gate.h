// Pause and step: a gate stands at every event of a run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/trace/event.h"

namespace zero1::trace {

/// Stops a run in front of the matching events. Unset fields match everything.
struct Breakpoint {
  std::optional<Kind> kind;
  std::optional<int> rank;
  std::optional<int> bucket;
  std::optional<int> param;
  std::optional<int> step;

  bool matches(const Event& event) const;
};

/// Every event asks `arrive` before it happens (spans: before they begin). Running, that is one relaxed
/// atomic load. Paused, the calling thread is held until a controller lets it go on; other threads run
/// on until they reach an event of their own. While all ranks are held, everything in device memory can
/// be read. Controllers may be on any thread.
class Gate {
 public:
  Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();

  /// Called by the run's threads with the event that is about to happen.
  void arrive(const Event& event) {
    if (open_.load(std::memory_order_relaxed)) return;
    hold(event);
  }

  void run();              ///< release everything and run freely (breakpoints still hold)
  void pause();            ///< hold every thread at its next event
  void step_event();       ///< release exactly one held event
  void step_bucket();      ///< run until an event of another bucket than the last released one
  void step_phase();       ///< run until an event of another kind than the last released one
  void step_iteration();   ///< run until the next Kind::step event of every rank
  void run_to(Breakpoint); ///< run until an event matches
  void set_breakpoints(std::vector<Breakpoint> breakpoints);
  std::vector<Breakpoint> breakpoints() const;

  /// The events in front of which threads are held now, oldest first.
  std::vector<Event> held() const;
  /// Blocks until at least one thread is held, or until `timeout_ms` has passed: then false.
  bool wait_held(std::int64_t timeout_ms) const;
  bool running() const;

  /// Lets everything through for good: the run is ending or failing.
  void shutdown() noexcept;

 private:
  void hold(const Event& event);

  std::atomic<bool> open_{true};
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::trace
