// The buckets whose collectives are launched together, and when they are launched.
// Megatron: `_ParamAndGradBucketGroup` in megatron/core/distributed/param_and_grad_buffer.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/zero1/config.h"
#include "core/zero1/context.h"
#include "core/zero1/param_and_grad_buffer.h"

namespace zero1 {

/// One bucket of one buffer.
struct BucketRef {
  const ParamAndGradBuffer* buffer = nullptr;
  int bucket = 0;         ///< within the buffer
  int global_bucket = 0;  ///< over all buffers: the number in traces and messages

  const BucketLayout& layout() const { return buffer->layout().buckets[static_cast<std::size_t>(bucket)]; }
};

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

  // ---- gradients ----

  /// Forgets this iteration's reports. The first reset after an iteration with reports turns them into
  /// the golden counts. Megatron: `reset`.
  void reset();

  /// A contribution to `param`'s main gradient has been queued in the last microbatch. With
  /// overlap_grad_reduce, from the second iteration on, starts the reduction when every count equals its
  /// golden count. Throws Error naming the parameter when it reports more often than in the first iteration.
  void register_grad_ready(int param);

  /// Queues checks, scaling and the reduction of all buckets. At most one may be outstanding. Checks and
  /// scaling are the reduce-scatter's prologue where the communicator takes one and nobody watches the run;
  /// else they are passes before it, with the same bits in this rank's shard.
  void start_grad_sync();

  /// Starts the reduction if nothing has (no overlap, or first iteration), makes the compute stream
  /// wait for it, and evaluates the checks. Throws Error naming rank, bucket and parameter when a
  /// gradient never came or a check failed.
  void finish_grad_sync();

  // ---- parameters ----

  /// The shards have been stepped: the other ranks' parameters are stale until a gather.
  void mark_params_stale() { gather_ = Gather::due; }
  /// If a gather is due and not under way, queues it after what the compute stream has been given so far.
  void start_param_sync();
  /// Makes the compute stream wait for the gather, starting it if needed. False where none was due.
  bool finish_param_sync();

  const std::vector<BucketRef>& buckets() const { return buckets_; }

 private:
  struct ReadyCount {
    int param = 0;
    int bucket = 0;  ///< index into buckets_
    int now = 0;
    int golden = 0;
  };
  enum class Gather { none, due, dispatched };

  bool scatters() const { return config_.use_distributed_optimizer && !config_.force_all_reduce; }
  void prepare_gradients();
  ReducePrologue prologue(std::size_t bucket);
  void check_and_scale(std::size_t bucket, float factor);
  void check_reports() const;
  void check_gradients();
  float gradient_scaling_factor(const BucketRef& bucket) const;
  trace::Event collective_event(trace::Kind kind, trace::Collective what, const BucketRef& bucket) const;
  void emit_state(trace::BucketState state);
  template <class Launch>
  Work launch(trace::Collective what, const std::shared_ptr<Event>& done, Launch&& launch_bucket);
  void wait_for(Work& work, trace::Collective what);
  std::string describe(const ReadyCount& count) const;

  RankContext& context_;
  const Layout& layout_;
  std::vector<BucketRef> buckets_;
  DataParallelConfig config_;
  Communicator& communicator_;

  std::vector<ReadyCount> counts_;    ///< one per parameter of the group, in buffer order
  std::vector<Range> ranges_;         ///< of the same parameters, in their bucket
  std::vector<Range> bucket_counts_;  ///< which of the counts are a bucket's
  std::vector<int> count_of_param_;   ///< by parameter index; -1: not in this group
  int complete_ = 0;                  ///< how many counts equal their golden count
  bool first_iteration_ = true;
  bool reported_ = false;

  DeviceMemory grad_stats_;  ///< fp64 [params][2]: largest magnitude, non-finite count
  std::vector<double> host_stats_;
  std::unique_ptr<Event> inputs_ready_;
  std::shared_ptr<Event> reduction_done_;
  std::shared_ptr<Event> gather_done_;
  Work reduction_;
  bool reduction_outstanding_ = false;
  Work gathering_;
  Gather gather_ = Gather::none;
};

}  // namespace zero1
