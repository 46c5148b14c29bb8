// The life of every bucket on every rank, replayed from events: what state its pieces are in at a moment.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/trace/event.h"

namespace zero1::viz {

/// What a piece of a bucket holds. A rank's own shard and the rest of the bucket may differ.
enum class PieceState : std::uint8_t {
  unknown,       ///< no event tells yet
  accumulating,  ///< gradients are being added
  ready,         ///< all gradients have reported
  reducing,      ///< a reduction is under way
  reduced,       ///< own shard: the mean over all ranks
  left_over,     ///< other shards after a reduce-scatter: this rank's sums, which nobody needs any more
  stepped,       ///< own shard: the optimizer has written new parameters
  stale,         ///< other shards: parameters of the step before
  gathering,     ///< an all-gather is under way
  current        ///< parameters of this step
};

std::string_view name(PieceState state);

struct BucketMoment {
  PieceState own = PieceState::unknown;
  PieceState others = PieceState::unknown;
  int ready = 0;          ///< gradients reported in this iteration's last microbatch
  int golden = 0;         ///< the same over the whole first iteration; 0: not known yet
  std::int32_t step = 0;  ///< 0: before the first
  std::int64_t since_ns = 0;
};

class BucketStates {
 public:
  BucketStates() = default;
  BucketStates(int ranks, int buckets);

  /// Takes over events; those of other kinds are skipped. In order within each rank; a late one is put where
  /// it belongs.
  void add(std::span<const trace::Event> events);

  /// The state at a moment: after every event that has begun by then. O(log n).
  BucketMoment at(int rank, int bucket, std::int64_t at_ns) const;

  int ranks() const { return ranks_; }
  int buckets() const { return buckets_; }

 private:
  struct Change {
    std::int64_t at_ns = 0;
    std::int32_t step = 0;
    trace::BucketState state = trace::BucketState::accumulating;
  };
  struct Report {
    std::int64_t at_ns = 0;
    std::int32_t step = 0;
  };
  struct History {
    std::vector<Change> changes;   ///< by time
    std::vector<Report> reports;   ///< by time
    std::int32_t first_step = -1;  ///< of the first report
    int golden = 0;
    bool golden_known = false;
    bool all_reduce = false;
  };

  void add_change(History& history, const trace::Event& event);
  void add_report(History& history, const trace::Event& event);

  int ranks_ = 0;
  int buckets_ = 0;
  std::vector<History> histories_;  ///< by rank, then bucket
};

}  // namespace zero1::viz
