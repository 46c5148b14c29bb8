// Who waits for what while a run is paused.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/recorder.h"

namespace zero1::viz {

/// How far one of a rank's two threads has come: the rank's own (compute and host events) or the one that
/// runs its communication stream.
struct ThreadState {
  enum class Where {
    outside,   ///< nothing has passed yet
    inside,    ///< the last thing that passed is the begin of `last`
    after,     ///< the last thing that passed is the end of `last`, or `last` is an instant
    finished,  ///< the rank has left the run
  };
  Where where = Where::outside;
  trace::Event last;
  std::int64_t runs_begun = 0;  ///< collective_run spans, on the communication stream
  std::int64_t runs_ended = 0;
};

struct RankState {
  ThreadState compute;
  ThreadState communication;
};

/// One line of the list of waits.
struct Wait {
  int rank = 0;
  std::optional<trace::Event> held;  ///< the event in front of which the gate holds it
  std::optional<int> bucket;         ///< of the collective that it waits in
  std::vector<int> for_ranks;        ///< whom it waits for; empty where the gate holds it
  std::string text;  ///< "rank 2 waits in the reduce-scatter of bucket 3 for rank 0, which is …"
};

/// One line per thread of a rank that does not go on by itself; `ranks` and `held` are of one moment. A rank
/// that neither is held nor waits computes, and has no line.
std::vector<Wait> find_waits(std::span<const RankState> ranks, std::span<const trace::Event> held,
                             const trace::RunInfo& info);

}  // namespace zero1::viz
