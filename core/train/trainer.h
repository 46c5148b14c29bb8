// Runs a whole training job on in-process ranks.
#pragma once

#include <functional>
#include <span>

#include "core/trace/event.h"
#include "core/trace/gate.h"
#include "core/trace/probe.h"
#include "core/trace/recorder.h"
#include "core/train/config.h"
#include "core/train/machine.h"
#include "core/train/metrics.h"
#include "core/train/rank_trainer.h"

namespace zero1 {

/// What may watch and steer a run. Everything is optional. None of it changes a bit of the results.
struct TrainObserver {
  /// After every iteration, in order, on one of the ranks' threads.
  std::function<void(const StepMetrics&)> on_step;
  /// Batches of events, in order within each (rank, stream).
  std::function<void(std::span<const trace::Event>)> on_events;
  /// When a rank is built, and before it is torn down, on its thread: to read tensors while the gate
  /// holds, or to restore a rank, which then trains from there on.
  std::function<void(int rank, RankTrainer&)> on_rank_ready;
  std::function<void(int rank, RankTrainer&)> on_rank_done;
  /// A rank has failed; on its thread, before it is torn down: nobody may look at it from here on.
  std::function<void(int rank)> on_rank_failed;
  /// After every iteration, on each rank's thread, before the next: to save. Gathers may still be due.
  std::function<void(int rank, RankTrainer&, std::int64_t step)> on_step_end;
  /// Asked after every iteration, on the thread of the rank that completes it first. When it says true, all
  /// ranks end the run after this iteration, as they would after the last.
  std::function<bool()> stop_requested;
  /// With the run's recorder before the ranks start, to drain it; with null before it goes.
  std::function<void(trace::Recorder*)> on_recorder;
  trace::Gate* gate = nullptr;
  trace::Probe* probe = nullptr;
  /// Off: no events are made at all, and the times in StepMetrics are zero but for `ms`.
  bool record = true;
};

/// The names and sizes of everything in a run of `config`, as its trace tells them; and its layout.
struct RunShape {
  trace::RunInfo info;
  Layout layout;
};
RunShape run_shape(const TrainConfig& config);

/// Runs `config`, which resolve() has returned, on the ranks that `make_machine` makes, and reports. When a
/// rank fails all others are stopped and its exception comes out here. Throws Error, too, where every step
/// was skipped; where that was the search for a loss scale, observers have seen the ranks to their end
/// before.
TrainSummary train(const TrainConfig& config, const TrainObserver& observer = {},
                   const MachineFactory& make_machine = make_cpu_machine);

}  // namespace zero1
