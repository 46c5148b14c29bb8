// The buckets whose collectives are launched together, and when they are launched.
// Megatron: `_ParamAndGradBucketGroup` in megatron/core/distributed/param_and_grad_buffer.py.
#pragma once

#include <memory>
#include <vector>

#include "core/zero1/collective_trace.h"
#include "core/zero1/config.h"
#include "core/zero1/context.h"
#include "core/zero1/gradient_preparation.h"
#include "core/zero1/param_and_grad_buffer.h"

namespace zero1 {

/// Counts the gradients of its buckets, reduces them in one coalesced launch when they are complete,
/// and gathers their parameters after the optimizer's step. All buckets of a group use one communicator.
///
/// The life of a group in one iteration:
///   reset → (register_grad_ready …) → start_grad_sync → finish_grad_sync → [optimizer step]
///         → start_param_sync → finish_param_sync
/// Every call comes from the rank's thread. Collectives and what prepares them run on the communication
/// stream, ordered after the compute stream by an event; nothing here blocks the host on a GPU except
/// the checks, which read their result in finish_grad_sync.
class BucketGroup {
 public:
  /// `context`, `layout` and the buffers must outlive the group.
  BucketGroup(RankContext& context, const Layout& layout, std::vector<BucketRef> buckets,
              const DataParallelConfig& config);

  /// Forgets this iteration's reports. The first reset after an iteration with reports turns them into
  /// the golden counts. Megatron: `reset`.
  void reset();

  /// A contribution to `param`'s main gradient has been queued in the last microbatch. With
  /// overlap_grad_reduce, from the second iteration on, starts the reduction when every count equals its
  /// golden count. Throws Error naming the parameter when it reports more often than in the first iteration.
  void register_grad_ready(int param);

  /// Queues the gradients' preparation and the reduction of all buckets. At most one may be outstanding.
  void start_grad_sync();

  /// Starts the reduction if nothing has (no overlap, or first iteration), makes the compute stream
  /// wait for it, and evaluates the checks. Throws Error naming rank, bucket and parameter when a
  /// gradient never came or a check failed.
  void finish_grad_sync();

  /// The shards have been stepped: the other ranks' parameters are stale until a gather.
  void mark_params_stale() { params_ = Params::stale; }
  /// If parameters are stale, queues their gather after what the compute stream has been given so far.
  void start_param_sync();
  /// Makes the compute stream wait for the gather, starting it if needed. False where all were current.
  bool finish_param_sync();

  const std::vector<BucketRef>& buckets() const { return buckets_; }

 private:
  struct ReadyCount {
    int param = 0;
    int now = 0;
    int golden = 0;
  };
  enum class Params { current, stale, gathering };

  void check_reports() const;
  void order_communication_after_compute();
  template <class Issue>
  Work launch(trace::Collective what, const std::shared_ptr<Event>& done, Issue&& issue);
  void wait_for(Work& work, trace::Collective what);

  RankContext& context_;
  const Layout& layout_;
  std::vector<BucketRef> buckets_;
  DataParallelConfig config_;
  Communicator& communicator_;
  trace::Collective reduction_kind_;
  GradientPreparation preparation_;
  CollectiveTrace trace_;

  std::vector<ReadyCount> counts_;   ///< one per parameter of the group, in buffer order
  std::vector<int> count_of_param_;  ///< by parameter index; -1: not in this group
  int complete_ = 0;                 ///< how many counts equal their golden count
  bool first_iteration_ = true;
  bool reported_ = false;

  std::unique_ptr<Event> inputs_ready_;
  std::shared_ptr<Event> reduction_done_;
  std::shared_ptr<Event> gather_done_;
  Work reduction_;  ///< valid while one is outstanding
  Work gather_;
  Params params_ = Params::current;
};

}  // namespace zero1
