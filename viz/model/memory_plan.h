// How much memory a rank needs: counted from a layout, or told by a run's events.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/layout/buffer_layout.h"
#include "core/trace/event.h"
#include "core/train/metrics.h"

namespace zero1::viz {

/// Parameters, gradients and optimizer states of one rank; activations depend on the batch and are left 0.
/// `sharded`: the optimizer's states are spread over the buffer's ranks (ZeRO-1), else every rank holds all.
MemoryReport states_of_rank(const Layout& layout, bool sharded);

/// What a run's memory events say, per rank.
class MemoryTimeline {
 public:
  MemoryTimeline() = default;
  explicit MemoryTimeline(int ranks);

  void add(std::span<const trace::Event> events);

  /// The last counts that a rank has told by then; zeros where it has told none.
  MemoryReport at(int rank, std::int64_t at_ns) const;
  bool empty() const { return empty_; }

 private:
  static constexpr std::size_t kinds = 4;
  struct Sample {
    std::int64_t at_ns = 0;
    std::int64_t bytes = 0;
  };
  std::vector<std::array<std::vector<Sample>, kinds>> ranks_;  ///< by rank and MemoryKind; only changes
  bool empty_ = true;
};

}  // namespace zero1::viz
