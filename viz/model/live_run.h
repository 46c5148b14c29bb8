// A training run in this process, with what the window needs to show and steer it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/train/trainer.h"
#include "viz/model/breakpoints.h"
#include "viz/model/change.h"
#include "viz/model/element_place.h"
#include "viz/model/waiting.h"

namespace zero1::viz {

class EventIndex;    // viz/model/event_index.h
class ElementProbe;  // viz/model/element_probe.h

struct LiveRunOptions {
  bool start_paused = false;  ///< hold every rank at its first event
  double slow_motion = 0;     ///< events per second from the start; 0: full speed
  std::vector<trace::Breakpoint> breakpoints;
  std::optional<ElementRef> follow;  ///< from the first event on
  std::string title;                 ///< of the scenario, shown beside the controls; may be empty
  std::string explanation;           ///< one paragraph
  int explained_step = 0;            ///< the last iteration that the explanation is about; 0: every one
  std::string again;                 ///< the command that begins the scenario anew
  MachineFactory make_machine = make_cpu_machine;
  /// Of the caller: on_step, on_rank_ready, on_rank_done and on_step_end are called on the run's threads,
  /// before those of the LiveRun, and stop_requested is asked. For checkpoints and metrics.
  TrainObserver hooks;
};

enum class RunState { starting, running, paused, finished, failed };

std::string_view name(RunState state);

/// Runs core's `train` on a thread of its own, behind a gate. Every method is called from one thread, the one
/// that draws, and none of them waits for the run. Nothing here changes a bit of the run's results.
///
/// Reading memory needs ranks whose memory the host can read: with `device` "cuda" the element's values and
/// `read` are not available, and `can_read` says so.
class LiveRun {
 public:
  /// Starts at once. `config` is what resolve() has returned; throws InputError where the model cannot be
  /// laid out. What fails later makes the state `failed`.
  explicit LiveRun(TrainConfig config, LiveRunOptions options = {});
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;
  /// Ends the run at the next event that each rank comes to, however far off its next collective is, and
  /// waits for that.
  ~LiveRun();

  // ---- what it is ----
  const TrainConfig& config() const;
  const std::string& title() const;
  const std::string& explanation() const;
  /// The command that begins the scenario anew, once its last explained iteration has ended; else empty.
  std::string begin_again() const;
  const trace::RunInfo& info() const;
  std::shared_ptr<const Layout> layout() const;
  bool can_read() const;

  // ---- how far it is ----

  /// Hands over everything that has been recorded since the last call; call it once per frame. Events come in
  /// order within each (rank, stream). The index has absorbed them afterwards.
  void deliver(EventIndex& into);
  void deliver(const std::function<void(std::span<const trace::Event>)>& into);

  RunState state() const;
  /// Why it failed; empty unless the state is `failed`.
  std::string failure() const;
  bool over() const { return state() == RunState::finished || state() == RunState::failed; }
  /// The iterations so far. Grows at its end; valid until the next `deliver`.
  std::span<const StepMetrics> metrics() const;
  std::int64_t dropped() const;  ///< events that found their ring full
  /// Null until the run has finished.
  const TrainSummary* summary() const;
  /// Nanoseconds on the run's clock, as in events.
  std::int64_t clock_ns() const;

  // ---- control; once the run is over these do nothing ----
  void run();
  void pause();
  void step_event();
  void step_bucket();
  void step_phase();
  void step_iteration();
  /// Runs until a breakpoint stops it; the same as `run`, but ends slow motion too.
  void run_to_breakpoint();
  /// Runs until the first event that matches, wherever breakpoints are.
  void run_to(const trace::Breakpoint& target);

  /// Runs at so many events per second, as steps of one event; breakpoints and every other command but this
  /// one end it. 0 pauses where it is under way.
  void set_slow_motion(double events_per_second);
  double slow_motion() const;  ///< 0: not under way

  const Breakpoints& breakpoints() const;
  void set_breakpoints(Breakpoints breakpoints);

  /// The events in front of which threads are held, oldest first.
  std::vector<trace::Event> held() const;
  /// For each rank that stands still, why.
  std::vector<Wait> waiting() const;
  /// What has happened between the last two stops, as far as it has been delivered; empty while it runs
  /// freely.
  const Change& last_change() const;

  // ---- reading tensors ----

  /// Runs `look` with the rank's trainer if that rank's memory is at rest: its own thread is held by the gate
  /// or waits in a collective, and its communication stream moves nothing. The rank stays where it is
  /// meanwhile, so `look` must be quick. False: it was not at rest, or can_read() is false; ask again later.
  bool read(int rank, const std::function<void(RankTrainer&)>& look) const;

  /// The element that is followed, and its values at every stage.
  ElementProbe& element();

  /// For tests and scenarios: wait_stopped and the like.
  trace::Gate& gate();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::viz
