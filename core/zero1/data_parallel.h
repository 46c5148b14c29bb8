// Puts a model's parameters and gradients into buffers and keeps the ranks in step.
// Megatron: `DistributedDataParallel` in megatron/core/distributed/distributed_data_parallel.py.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/layout/buffer_layout.h"
#include "core/model/model.h"
#include "core/zero1/bucket_group.h"

namespace zero1 {

/// The options that a model's layout is computed with. The bucket size is as given, from num_buckets
/// (total / num_buckets), or Megatron's default with overlap_grad_reduce; none without it.
LayoutOptions layout_options(const DataParallelConfig& config, const std::vector<ParamSpec>& specs,
                             int dp_size, int expert_dp_size);

/// Owns the buffers and bucket groups of one rank and listens to the model through ModelHooks.
///
/// One iteration, as the trainer drives it:
///   zero_grad_buffer(); for each microbatch: { no_sync on all but the last; forward; backward }
///   finish_grad_sync(); optimizer.step(); start_param_sync()
class DataParallel : public ModelHooks {
 public:
  /// Computes the layout, allocates the buffers, binds the model, and checks that all ranks agree on
  /// it: throws Error on every rank when they do not. Throws InputError naming each parameter that no layer
  /// of the model lists. `context` and `model` must outlive this.
  DataParallel(RankContext& context, Model& model, const DataParallelConfig& config);

  const Layout& layout() const { return layout_; }
  const DataParallelConfig& config() const { return config_; }
  Model& model() { return model_; }
  RankContext& context() const { return context_; }
  const std::vector<std::unique_ptr<ParamAndGradBuffer>>& buffers() const { return buffers_; }

  /// This rank's number among those that share `buffer`, and their communicator.
  Communicator& communicator(const ParamAndGradBuffer& buffer) const;

  TensorView param(int param) const { return buffer_of(param).param(param); }
  TensorView main_grad(int param) const { return buffer_of(param).main_grad(param); }

  // ---- gradients ----

  /// Starts a new count and queues the zeroing of the gradients, but for those that the model's first
  /// contribution fills (Model::fills_main_grad): these are zeroed only where somebody may look. Megatron:
  /// `zero_grad_buffer`.
  void zero_grad_buffer();

  /// While it lives, gradients accumulate locally: reports are not counted and nothing is reduced.
  /// Megatron: `no_sync`.
  class NoSync {
   public:
    explicit NoSync(DataParallel& owner) : owner_(owner) { owner_.is_last_microbatch_ = false; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { owner_.is_last_microbatch_ = true; }

   private:
    DataParallel& owner_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// After it, work on the compute stream sees the reduced gradients. Megatron: `finish_grad_sync`.
  void finish_grad_sync();

  // ---- parameters ----

  /// The optimizer has stepped this rank's shards: the other ranks' parameters are stale until a gather.
  void mark_params_stale();
  /// Gathers stale parameters; nothing to do after a skipped step. With overlap_param_gather dispatches what
  /// the first layer needs and leaves the others to forward; without it gathers everything now.
  void start_param_sync();
  /// Completes every gather that is due: before evaluation, saving and shutdown.
  void drain_param_gathers();

  // ---- ModelHooks ----
  void begin_forward(int layer) override;
  void end_forward(int layer) override;
  void begin_backward(int layer) override;
  void end_backward(int layer) override;
  float main_grad_beta(int param) override;
  void grad_ready(int param) override;

 private:
  struct Gather {
    BucketGroup* group = nullptr;
    int first_layer = 0;  ///< the first that reads one of its parameters
  };

  void build_groups();
  void find_grads_to_zero();
  void check_ranks_agree();
  void check_layers_list_params() const;
  const ParamAndGradBuffer& buffer_of(int param) const;
  int group_of(int param) const;
  void begin_layer(trace::Kind kind, int layer);
  /// Starts the gathers of all groups that the next layer needs which needs any: they run while this one
  /// computes.
  void start_next_layers_gathers();

  RankContext& context_;
  Model& model_;
  DataParallelConfig config_;
  Layout layout_;
  std::vector<std::unique_ptr<ParamAndGradBuffer>> buffers_;
  std::deque<BucketGroup> groups_;    ///< in the order in which backward completes them
  std::vector<int> group_of_bucket_;  ///< by global bucket number
  std::vector<Gather> gather_order_;  ///< in the order in which forward needs them
  std::size_t next_gather_ = 0;       ///< of gather_order_: what comes before has been started
  bool is_last_microbatch_ = true;
  std::vector<TensorView> grads_to_zero_;  ///< what no first contribution fills, padding included
  std::vector<bool> awaits_first_grad_;    ///< by parameter: its main_grad is still to be filled
  trace::Tracer::Span layer_span_;
};

}  // namespace zero1
