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
  std::optional<Kind> kind = std::nullopt;
  std::optional<int> rank = std::nullopt;
  std::optional<int> bucket = std::nullopt;
  std::optional<int> param = std::nullopt;
  std::optional<int> step = std::nullopt;
  std::optional<int> layer = std::nullopt;
  std::optional<int> detail = std::nullopt;     ///< Collective, BucketState or MemoryKind, by kind
  std::optional<int> from_step = std::nullopt;  ///< this step and every later one

  friend bool operator==(const Breakpoint&, const Breakpoint&) = default;
  bool matches(const Event& event) const;
};

/// Every event asks `arrive` before it happens (spans: before they begin). Running, that is one relaxed
/// atomic load. Paused, the calling thread is held until a controller lets it go on; other threads run
/// on until they reach an event of their own. While all ranks are held, everything in device memory can
/// be read. Controllers may be on any thread.
///
/// The commands, precisely:
/// - Every command but `pause` and `step_event` releases held events and lets the run go on until a stop.
///   A stop holds the event that caused it and turns the gate to paused, so that every other thread is
///   held at its next event too.
/// - A breakpoint stops whatever command is under way. An event held in front of a breakpoint passes it
///   when it is released; it is not tested again.
/// - Stepping makes progress always: it releases the oldest held event at least. Where that thread then
///   waits for a peer that is held, the peer's event has become the oldest; stepping again releases it.
/// - A command replaces the one under way.
class Gate {
 public:
  Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();  ///< no thread may be inside `arrive`

  /// Called by the run's threads with the event that is about to happen.
  void arrive(const Event& event) {
    if (open()) return;
    hold(event);
  }

  /// Would an event pass unseen now? One relaxed load.
  bool open() const { return open_.load(std::memory_order_relaxed); }

  /// Releases everything and runs freely (breakpoints still hold).
  void run();

  /// Holds every thread at its next event. An event that passed the gate a moment ago still happens.
  void pause();

  /// Releases exactly one held event, the oldest; everything else is held. Where none is held it only
  /// pauses: each release is of an event that `held` could show.
  void step_event();

  /// Runs until an event of another bucket than the last released one arrives. Only events with a bucket
  /// (bucket >= 0) count; those without pass. The oldest held event is released first and gives the
  /// bucket to compare with; where it has none, the last released one that had. Of the other held
  /// events, those of another bucket stay held, without being the stop.
  void step_bucket();

  /// Runs until an event of another kind than the last released one arrives, in the manner of
  /// `step_bucket`; the kind is that of the oldest held event.
  void step_phase();

  /// Runs until each rank arrives at its next Kind::step event, where it is held. The other ranks run on
  /// to theirs: this command ends rank by rank.
  void step_iteration();

  /// Releases everything and runs until an event that arrives matches.
  void run_to(Breakpoint target);

  void set_breakpoints(std::vector<Breakpoint> breakpoints);
  std::vector<Breakpoint> breakpoints() const;

  /// The events in front of which threads are held now, oldest first.
  std::vector<Event> held() const;

  /// Blocks until at least one thread is held, or until `timeout_ms` has passed: then false.
  bool wait_held(std::int64_t timeout_ms) const;

  /// Blocks until the gate is paused and at least one thread is held, which is when a command that runs
  /// until something has found it (`step_iteration`: until one rank is held), or until `timeout_ms` has
  /// passed or the run ends: then false.
  bool wait_stopped(std::int64_t timeout_ms) const;

  /// Nothing but a breakpoint will hold an event.
  bool running() const;

  /// Lets everything through for good: the run is ending or failing. Later commands do nothing.
  void shutdown() noexcept;

  /// Ends the run: a shutdown after which the ranks' own threads fail at the next event that they come to.
  void stop() noexcept;

  /// Throws Error after `stop`. Called on a rank's own thread, where an exception ends the rank.
  void check_stopped() const {
    if (stopped_.load(std::memory_order_relaxed)) throw_stopped();
  }

 private:
  void hold(const Event& event);
  [[noreturn]] static void throw_stopped();

  std::atomic<bool> open_{true};
  std::atomic<bool> stopped_{false};
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::trace
