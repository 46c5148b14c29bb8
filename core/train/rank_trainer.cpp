#include "core/train/rank_trainer.h"

#include <fmt/core.h>

#include <cmath>

#include "core/base/at.h"
#include "core/base/error.h"
#include "core/train/weights.h"

namespace zero1 {

using trace::Kind;

void RankStreams::quiesce() noexcept {
  for (Stream* stream : {communication.get(), compute.get()}) {
    try {
      stream->synchronize();
    } catch (const std::exception&) {  // the first failure has been reported already
    }
  }
}

RankTrainer::RankTrainer(const TrainConfig& config, const RunData& data, Device& device, RankStreams& streams,
                         Communicator& communicator, trace::Tracer& tracer)
    : config_(config),
      data_(data),
      context_{device, *streams.compute, *streams.communication, {&communicator, nullptr}, tracer},
      model_(make_model(config)),
      data_parallel_(context_, *model_, config.data_parallel),
      optimizer_(data_parallel_, config.optimizer),
      loss_scaler_(config.loss_scale),
      skipped_steps_(config),
      host_batches_(static_cast<std::size_t>(config.num_microbatches())),
      device_batch_(context_.device.allocate(
          2 * config.micro_batch_size * config.seq_length * static_cast<std::int64_t>(sizeof(std::int32_t)),
          MemoryKind::other)),
      loss_sum_(context_.device.allocate(size_bytes(DType::fp64), MemoryKind::other)),
      loss_ready_(context_.device.create_event()) {
  if (config.init.empty()) {
    init_weights(data_parallel_, config.seed);
  } else {
    load_weights(data_parallel_, config);
  }
  optimizer_.reload_model_params();
}

trace::Tracer::Span RankTrainer::span(Kind kind) {
  trace::Event event;
  event.kind = kind;
  event.stream = trace::StreamId::compute;
  return context_.tracer.span(context_.compute, event);
}

/// Microbatch m of a global batch that begins at `first_sequence` takes dp · micro_batch_size sequences in a
/// row, each rank its own piece of them. Megatron: `MegatronPretrainingSampler`.
Batch RankTrainer::load_batch(const TokenSource& source, std::int64_t first_sequence,
                              std::int64_t microbatch) {
  const auto phase = span(Kind::data);
  const std::int64_t sequences = config_.micro_batch_size;
  const std::int64_t length = config_.seq_length;
  const std::int64_t first = first_sequence + (microbatch * context_.dp_size() + context_.rank()) * sequences;
  std::vector<std::int32_t>& host = at(host_batches_, microbatch % config_.num_microbatches()).tokens;
  host.resize(2 * sequences * length);
  std::int32_t* tokens = host.data();
  std::int32_t* targets = tokens + sequences * length;
  for (std::int64_t s = 0; s < sequences; ++s)
    source.read(first + s, tokens + s * length, targets + s * length);

  // Token ids are 32-bit words; a copy does not look inside them.
  context_.device.copy_from_host(context_.compute, device_batch_.view(DType::fp32), host.data());
  const auto* on_device = static_cast<const std::int32_t*>(device_batch_.data());
  return {on_device, on_device + sequences * length, sequences, length};
}

/// Sums loss_sum over the ranks behind whatever the communication stream is doing.
void RankTrainer::queue_loss_reduction() {
  context_.compute.record(*loss_ready_);
  context_.communication.wait(*loss_ready_);
  context_.groups.data_parallel
      ->all_reduce(context_.communication, loss_sum_.view(DType::fp64), ReduceOp::sum)
      .order(context_.compute);
}

double RankTrainer::global_mean_loss(std::int64_t tokens) {
  double sum = 0;
  context_.device.copy_to_host(context_.compute, &sum, loss_sum_.view(DType::fp64));
  context_.compute.synchronize();
  return sum / static_cast<double>(tokens);
}

TrainProgress RankTrainer::progress() const {
  return {iteration_, consumed_sequences_, optimizer_.step_count(), loss_scaler_.state(),
          scheduled_sequences_};
}

void RankTrainer::restore(const TrainProgress& progress) {
  iteration_ = progress.iteration;
  consumed_sequences_ = progress.consumed_sequences;
  scheduled_sequences_ = progress.scheduled_sequences;
  optimizer_.set_step_count(progress.optimizer_steps);
  loss_scaler_.restore(progress.loss_scaler);
}

/// Of this rank's own microbatches, before anything is reduced: so the first bad rank is named, and a bad
/// loss before the gradients that it makes bad. The loss is not scaled: no loss scale mends it.
void RankTrainer::check_loss() {
  double sum = 0;
  context_.device.copy_to_host(context_.compute, &sum, loss_sum_.view(DType::fp64));
  context_.compute.synchronize();
  if (std::isfinite(sum)) return;
  throw Error(fmt::format(
      "rank {}, step {}: the loss is {}. Look at the weights and the data, lower the learning rate, "
      "or train on with --no-check-for-nan-in-loss-and-grad, which skips such steps",
      context_.rank(), context_.tracer.step(), std::isnan(sum) ? "NaN" : "infinite"));
}

StepMetrics RankTrainer::train_step() {
  const std::int64_t iteration = iteration_ + 1;
  context_.tracer.set_step(iteration);
  const auto step_span = span(Kind::step);
  const std::int64_t batch =
      global_batch_size_at(config_.rampup_batch_size, config_.global_batch_size, consumed_sequences_);
  const std::int64_t microbatches = batch / (config_.micro_batch_size * config_.dp);
  const std::int64_t tokens = batch * config_.seq_length;
  const bool fp16 = config_.param_dtype == DType::fp16;
  const double loss_scale = fp16 ? loss_scaler_.scale() : 1;
  // Each token's loss counts 1/(this rank's tokens); the average over ranks happens with the reduction.
  const double rank_tokens = 1.0 * tokens / context_.dp_size();

  data_parallel_.zero_grad_buffer();
  context_.device.ops().fill(context_.compute, loss_sum_.view(DType::fp64), 0);
  for (std::int64_t m = 0; m < microbatches; ++m) {
    // The trace has 16 bits for it: beyond, events carry the last number there is.
    context_.tracer.set_microbatch(std::min<std::int64_t>(m, INT16_MAX));
    const auto microbatch_span = span(Kind::microbatch);
    std::optional<DataParallel::NoSync> no_sync;
    if (m + 1 < microbatches) no_sync.emplace(data_parallel_);
    const Batch microbatch = load_batch(*data_.train, consumed_sequences_, m);
    model_->forward(microbatch, loss_sum_.view(DType::fp64), loss_scale / rank_tokens, data_parallel_);
    emit_memory();
    model_->backward(data_parallel_);
  }
  context_.tracer.set_microbatch(-1);

  if (config_.check_for_nan_in_loss) check_loss();
  data_parallel_.finish_grad_sync();
  queue_loss_reduction();
  StepMetrics metrics;
  metrics.step = iteration;
  metrics.lr = learning_rate(config_.lr, 1.0 * scheduled_sequences_ / config_.global_batch_size);
  const StepResult result = optimizer_.step(metrics.lr, 1 / loss_scale);
  data_parallel_.start_param_sync();
  metrics.grad_norm = result.grad_norm;
  metrics.skipped = result.skipped;
  metrics.loss = global_mean_loss(tokens);
  metrics.tokens = tokens;
  if (fp16) {
    metrics.loss_scale = loss_scale;
    loss_scaler_.update(result.skipped);
  }
  skipped_steps_.add(iteration, result.skipped, loss_scale);
  metrics.skipped_steps = skipped_steps_.count();
  iteration_ = iteration;
  consumed_sequences_ += batch;
  if (!result.skipped) scheduled_sequences_ += batch;
  return metrics;
}

double RankTrainer::evaluate() {
  data_parallel_.drain_param_gathers();
  const auto evaluation = span(Kind::evaluation);
  context_.device.ops().fill(context_.compute, loss_sum_.view(DType::fp64), 0);
  for (std::int64_t i = 0; i < config_.eval_iters; ++i) {
    for (std::int64_t m = 0; m < config_.num_microbatches(); ++m) {
      const Batch batch = load_batch(*data_.valid, i * config_.global_batch_size, m);
      model_->evaluate(batch, loss_sum_.view(DType::fp64), data_parallel_);
    }
    context_.compute.synchronize();  // the host batches are reused
  }
  queue_loss_reduction();
  return global_mean_loss(config_.eval_iters * config_.tokens_per_step());
}

void RankTrainer::finish() {
  data_parallel_.drain_param_gathers();
  context_.communication.synchronize();
  context_.compute.synchronize();
}

void RankTrainer::emit_memory() {
  if (!context_.tracer.enabled()) return;
  for (int k = 0; k < memory_kind_count; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    trace::Event event;
    event.kind = Kind::memory;
    event.detail = static_cast<std::uint8_t>(kind);
    event.bytes = context_.device.allocated_bytes(kind);
    context_.tracer.instant(event);
  }
}

MemoryReport RankTrainer::memory() const {
  const Device& device = context_.device;
  return {device.peak_bytes(MemoryKind::parameters), device.peak_bytes(MemoryKind::gradients),
          device.peak_bytes(MemoryKind::optimizer), device.peak_bytes(MemoryKind::activations)};
}

}  // namespace zero1
