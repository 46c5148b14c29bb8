// The life of every bucket on every rank, replayed from events: what state its pieces are in at a moment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "viz/model/event_index.h"

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

/// Asks an EventIndex, which must outlive it. The answers' cost does not depend on the length of the run.
class BucketStates {
 public:
  explicit BucketStates(const EventIndex& events) : events_(events) {}

  /// The state after every event that was recorded by then.
  BucketMoment at(int rank, int bucket, std::int64_t at_ns);

 private:
  std::int64_t count_reports(int rank, int bucket, std::int64_t after_ns, std::int64_t up_to_ns) const;
  int golden(int rank, int bucket);

  const EventIndex& events_;
  std::map<std::pair<int, int>, int> golden_;  ///< by rank and bucket; only those that are known
};

/// What a rank's gradient buffer holds of a bucket, in words: "local, still accumulating, iteration 3".
/// `owner`: the place asked about lies in the rank's own shard. Empty where no event tells.
std::string gradient_content(const EventIndex& events, int rank, int bucket, bool owner, std::int64_t at_ns);

}  // namespace zero1::viz
