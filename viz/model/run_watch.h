// Knows how far every rank of a run is, and lends out a rank's trainer while it stands still.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/trace/gate.h"
#include "core/trace/probe.h"
#include "core/train/rank_trainer.h"
#include "viz/model/element_probe.h"
#include "viz/model/waiting.h"

namespace zero1::viz {

/// The probe of a live run. Each event that passes takes its rank's lock for a moment; whoever holds a rank's
/// lock can be sure that the rank passes no event meanwhile.
class RunWatch final : public trace::Probe {
 public:
  /// `element` (may be null: memory cannot be read) and `gate` outlive the watch.
  RunWatch(int ranks, const trace::Gate& gate, ElementProbe* element);

  // ---- the run's threads ----
  void passed(const trace::Event& event, At at) noexcept override;
  void enter(int rank, RankTrainer& trainer);
  /// The rank is done, or has failed: nothing looks at it from here on.
  void leave(int rank);

  // ---- the thread that draws ----
  std::vector<RankState> states() const;
  /// Is somebody held, and does everybody else wait for that?
  bool all_at_rest() const;
  /// Runs `look` with the rank's trainer if its memory is at rest (at_rest in waiting.h).
  bool read(int rank, const std::function<void(RankTrainer&)>& look) const;
  /// Makes every rank's pending and future collectives fail.
  void abort(std::string_view reason) const;

 private:
  struct Rank {
    mutable std::mutex mutex;
    RankState state;
    RankTrainer* trainer = nullptr;
  };

  const trace::Gate& gate_;
  ElementProbe* element_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace zero1::viz
