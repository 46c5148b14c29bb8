// Who waits for what while a run is paused.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/probe.h"
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
  std::int64_t norms_begun = 0;      ///< grad_norm spans
  std::int64_t buckets_reduced = 0;  ///< bucket_state events that say so
};

/// Takes note of an event that passes.
void advance(RankState& state, const trace::Event& event, trace::Probe::At at);

/// Does nothing write to the memory of `rank`, and will nothing before another event of some rank passes? Its
/// own thread is held or waits in a collective, and its communication stream is held, idle, or waits for a
/// rank that has not joined. The states, `held` and the answer are of one moment.
bool at_rest(std::span<const RankState> ranks, int rank, std::span<const trace::Event> held);

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
