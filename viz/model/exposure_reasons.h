// Why the compute stream stood still for a collective: exposed communication, wait by wait.
//
// A wait W is a collective_wait span of the compute stream, longer than 0. Its run R is the run of the same
// rank, bucket and collective that ended last by W's end (one may be outstanding at a time); its issue I is
// that run's collective_issue. All ranks' runs of one collective overlap in time, since none ends before all
// have begun: T is the moment at which the last of them began. W's time falls into
//   queueing   what lies before R's begin: R stood in line behind other work of its stream, which are other
//              runs, and scaling and checks of gradients
//   peers      between R's begin and T: the other ranks had not come yet
//   transfer   between T and R's end: data moved
//   rest       after R's end: the rank's thread went on later than it could
//
// One reason is given for each wait, the first of these that holds:
//   first_iteration  R's flags say that ready counts were being learnt, so that it was issued after backward
//   no_overlap       the run was started without the flag that lets this collective overlap
//   queueing         the largest part of W is queueing
//   slow_peer        the largest part of W is peers
//   late             no layer began between I and W: there was no compute left to hide behind. For a
//                    reduction: the last gradients of the bucket came in the last layers of backward; for a
//                    gather: its parameters were needed at once
//   transfer         else: the transfer took longer than the layers between I and W
// With R not recorded the reason is unknown.
//
// Sums over waits count the parts: queueing as queueing, peers as slow_peer, transfer as late or transfer,
// and rest as the wait's own reason. A wait whose reason is first_iteration, no_overlap or unknown counts
// whole.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/overlap.h"
#include "core/trace/recorder.h"

namespace zero1::viz {

class EventIndex;

enum class ExposureReason : std::uint8_t {
  unknown,
  first_iteration,
  no_overlap,
  queueing,
  slow_peer,
  late,
  transfer,
};
inline constexpr int exposure_reason_count = 7;

std::string_view name(ExposureReason reason);
/// One sentence for the reader; "late" reads differently for reductions and gathers.
std::string explain(ExposureReason reason, trace::Collective collective);

/// Which collectives a run's flags let overlap.
struct OverlapFlags {
  bool reduce = true;
  bool gather = true;
};
/// From RunInfo::config_json; both where it does not tell.
OverlapFlags overlap_flags(const trace::RunInfo& info);

struct ExposedWait {
  int rank = 0;
  int step = -1;  ///< that of core/trace/overlap.h: the first of the rank that ends at or after the wait
  int bucket = -1;
  trace::Collective collective = trace::Collective::reduce_scatter;
  trace::Interval when;
  std::int64_t queueing_ns = 0, peers_ns = 0, transfer_ns = 0, rest_ns = 0;
  ExposureReason reason = ExposureReason::unknown;
  ExposureReason transfer_reason = ExposureReason::unknown;  ///< of transfer_ns: late or transfer
  int slowest_rank = -1;  ///< the last to begin, where that was another one

  /// What it adds to the sum of a reason.
  std::int64_t share_ns(ExposureReason of) const;
};

/// What exposed waits of one bucket, or of a step, add up to over ranks, by reason: as much as
/// core/trace/overlap says was exposed. Waits of one coalesced launch lie in each other; a step's shares
/// count such a moment once, for the wait that began first.
struct ExposureShares {
  std::array<std::int64_t, exposure_reason_count> ns{};
  ExposureReason largest() const;
  void add(const ExposedWait& wait);
  std::int64_t operator[](ExposureReason reason) const { return ns[static_cast<std::size_t>(reason)]; }
};

struct StepExposure {
  int step = -1;
  trace::StepReport report;        ///< the figures of core/trace/overlap.h
  std::vector<ExposedWait> waits;  ///< by rank, then time
  std::map<int, ExposureShares> buckets;
  ExposureShares all;
};

/// One step. `events` holds at least what was recorded from the beginning of the step before to the end of
/// this step on every rank, in any order; `ranks` as in RunInfo.
StepExposure explain_step(std::span<const trace::Event> events, int ranks, int step,
                          const OverlapFlags& flags);

/// The same from an index, which knows where the events of a step are. Nothing recorded of the step: a
/// report without ranks.
StepExposure explain_step(const EventIndex& events, int step, const OverlapFlags& flags);

}  // namespace zero1::viz
