// One rank of a training run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/data/token_source.h"
#include "core/train/config.h"
#include "core/train/metrics.h"
#include "core/train/skipped_steps.h"
#include "core/zero1/distributed_optimizer.h"

namespace zero1 {

/// A rank's queues. Outlives the RankTrainer, so that a failing rank can stop its queues before the
/// memory that they use is freed.
struct RankStreams {
  std::unique_ptr<Stream> compute;
  std::unique_ptr<Stream> communication;

  explicit RankStreams(Device& device)
      : compute(device.create_stream(StreamKind::compute)),
        communication(device.create_stream(StreamKind::communication)) {}

  /// Waits until both queues are empty, whatever has gone wrong in them.
  void quiesce() noexcept;
};

/// Everything of a run that its ranks share and only read.
struct RunData {
  std::shared_ptr<const TokenSource> train;
  std::shared_ptr<const TokenSource> valid;
};

/// Where a run stands between two iterations, beside what the optimizer's shards hold.
struct TrainProgress {
  std::int64_t iteration = 0;  ///< completed
  std::int64_t consumed_sequences =
      0;                             ///< of the training data, over all ranks: where the next step reads on
  std::int64_t optimizer_steps = 0;  ///< fewer than iterations where steps were skipped
  LossScaler::State loss_scaler;
  std::int64_t scheduled_sequences = 0;  ///< consumed by the iterations that moved the schedule: not skipped

  friend bool operator==(const TrainProgress&, const TrainProgress&) = default;
};

/// The model, its buffers and its optimizer on one rank. Used by the rank's thread.
class RankTrainer {
 public:
  /// Builds the model and loads or initialises its parameters. All ranks construct at the same time.
  RankTrainer(const TrainConfig& config, const RunData& data, Device& device, RankStreams& streams,
              Communicator& communicator, trace::Tracer& tracer);

  /// The next iteration, 1 is the first. The times in the result are left to the caller. Throws Error where a
  /// check of TrainConfig fails, naming rank and iteration, and as SkippedSteps does.
  StepMetrics train_step();

  TrainProgress progress() const;
  /// Continues where a run with the same parameters and moments stood; those are set through
  /// optimizer().shards().
  void restore(const TrainProgress& progress);

  /// The mean loss over eval_iters global batches of the validation data.
  double evaluate();
  /// What evaluate() has found after the last iteration; nothing where it was not called since.
  std::optional<double> valid_loss() const;

  const SkippedSteps& skipped_steps() const { return skipped_steps_; }

  /// Completes what is still under way on the queues.
  void finish();

  DataParallel& data_parallel() { return data_parallel_; }
  DistributedOptimizer& optimizer() { return optimizer_; }
  const TrainConfig& config() const { return config_; }
  RankContext& context() { return context_; }
  MemoryReport memory() const;

 private:
  struct HostBatch {
    std::vector<std::int32_t> tokens;  ///< then targets, both [sequences, seq_len]
  };

  Batch load_batch(const TokenSource& source, std::int64_t first_sequence, std::int64_t microbatch);
  double global_mean_loss(std::int64_t tokens);
  void check_loss();
  void queue_loss_reduction();
  void emit_memory();
  trace::Tracer::Span span(trace::Kind kind);

  const TrainConfig& config_;
  const RunData& data_;
  RankContext context_;
  std::unique_ptr<Model> model_;
  DataParallel data_parallel_;
  DistributedOptimizer optimizer_;
  LossScaler loss_scaler_;
  SkippedSteps skipped_steps_;
  std::int64_t iteration_ = 0;            ///< completed
  std::int64_t consumed_sequences_ = 0;   ///< over all ranks
  std::int64_t scheduled_sequences_ = 0;  ///< of them, in iterations that were not skipped
  std::optional<double> valid_loss_;      ///< of the last evaluation, and after which iteration that was
  std::int64_t evaluated_iteration_ = 0;
  std::vector<HostBatch> host_batches_;  ///< one per microbatch: copies may still be queued
  DeviceMemory device_batch_;
  DeviceMemory loss_sum_;  ///< fp64[1]
  std::unique_ptr<Event> loss_ready_;
};

}  // namespace zero1
