// Where communication hides behind compute, and where it does not.
//
// For one rank:
//   communication   the union of its Kind::collective_run spans
//   exposed         the union of its Kind::collective_wait spans on the compute stream: that stream stood
//                   still for a collective
//   computes        the union of the leaf work spans on the compute stream (forward, backward and the
//                   phases of the optimizer step; see counts_as_compute), less exposed. Containers (step,
//                   microbatch, evaluation), reading data and checkpoints are not computing.
//   overlapped      communication ∩ computes
//   overlap         overlapped / communication, 0 where there is no communication
// The definition of overlap is Holistic Trace Analysis' ("communication computation overlap").
//
// A run or wait belongs to the first step of its rank that ends at or after its own end. An all-gather that
// is issued after the step and finishes in the next step's forward belongs to that next step, and so does
// what finishes between two steps; what finishes after the last step belongs to no step, only to the run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/intervals.h"

namespace zero1::trace {

inline constexpr int collective_count = 6;

/// Is this a leaf span of work on the compute stream?
bool counts_as_compute(const Event& event);

/// Communication of one rank, or a sum over several.
struct CommFigures {
  std::int64_t comm_ns = 0;
  std::int64_t exposed_ns = 0;
  std::int64_t overlapped_ns = 0;
  std::array<std::int64_t, collective_count> bytes{};  ///< contributed, by Collective
  std::int64_t runs = 0;                               ///< collectives

  double overlap() const {
    return comm_ns == 0 ? 0.0 : static_cast<double>(overlapped_ns) / static_cast<double>(comm_ns);
  }
  std::int64_t total_bytes() const;
  CommFigures& operator+=(const CommFigures& other);
  friend bool operator==(const CommFigures&, const CommFigures&) = default;
};

/// One step of one rank.
struct RankStep {
  int rank = 0;
  int step = 0;
  std::int64_t step_ns = 0;
  CommFigures comm;
};

/// One step over ranks.
struct StepFigures {
  struct Values {
    double ms = 0, comm_ms = 0, exposed_comm_ms = 0;
    double overlap = 0;  ///< over the ranks that communicated
  };
  int step = 0;
  int ranks = 0;  ///< whose step has ended; the figures are over these
  Values mean;
  Values max;
  std::array<std::int64_t, collective_count> bytes{};  ///< sum over ranks, by Collective
};

StepFigures summarize(int step, std::span<const RankStep> ranks);

/// One bucket over the whole run and all ranks: the sums of what each (rank, step) merged for itself.
struct BucketFigures {
  CommFigures all;
  CommFigures reduce;  ///< reduce-scatter, or all-reduce without the distributed optimizer
  CommFigures gather;  ///< all-gather
  /// How long before the end of its step's last backward the reduction began; negative: after it.
  std::int64_t lead_ns_sum = 0;
  std::int64_t lead_ns_min = 0;
  std::int64_t lead_count = 0;
};

struct StepReport {
  StepFigures figures;
  std::vector<RankStep> ranks;
  std::map<int, CommFigures> buckets;  ///< sums over ranks, by bucket; -1: collectives without a bucket
};

struct OverlapReport {
  CommFigures run;                       ///< sum over ranks
  std::vector<CommFigures> ranks;        ///< by rank, whole run
  std::vector<StepReport> steps;         ///< in order
  std::map<int, BucketFigures> buckets;  ///< by bucket; -1: collectives without a bucket
};

/// What one rank did, reduced to what the figures need.
struct RankTimeline {
  struct Span {
    Interval when;
    std::int64_t bytes = 0;
    std::int32_t bucket = -1;
    std::int32_t step = -1;
    Collective collective = Collective::reduce_scatter;
  };
  struct Step {
    Interval when;
    std::int32_t step = -1;
  };
  std::vector<Interval> compute;  ///< leaf work, as it came
  std::vector<Span> runs;
  std::vector<Span> waits;
  std::vector<Step> steps;
  std::map<std::int32_t, std::int64_t> backward_end_ns;  ///< of each step's last backward

  void add(const Event& event);

  /// When this rank computes.
  IntervalSet computes() const;
};

/// The figures of some runs and waits of one rank.
CommFigures measure(std::span<const RankTimeline::Span> runs, std::span<const RankTimeline::Span> waits,
                    const IntervalSet& computes);

/// Analyses a whole run that is handed over in batches, in any order. About 20 bytes per event.
class OverlapAnalysis {
 public:
  explicit OverlapAnalysis(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}
  void add(std::span<const Event> events);
  OverlapReport report() const;

 private:
  std::vector<RankTimeline> ranks_;
};

OverlapReport analyze_overlap(std::span<const Event> events, int ranks);

/// The figures of a run's steps while it runs, from drained batches, in any order within a step. They are
/// those of OverlapAnalysis, provided that nothing on the compute stream but a container goes on over the end
/// of a step, and that a collective that ends in a step has begun in the step before at the earliest: after a
/// step its events are forgotten, but for what was computed since that step began.
class StepAccumulator {
 public:
  explicit StepAccumulator(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// Has every rank's end of this step been added?
  bool complete(int step) const;

  void add(std::span<const Event> events);

  /// The figures of a step over the ranks whose end of it has been added (StepFigures::ranks tells how
  /// many). Each step is taken once, in rising order. Events of a taken step that are added later count
  /// in the next one.
  StepFigures take(int step);

 private:
  std::vector<RankTimeline> ranks_;
};

}  // namespace zero1::trace
