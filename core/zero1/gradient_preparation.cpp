#include "core/zero1/gradient_preparation.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/at.h"
#include "core/base/error.h"

namespace zero1 {

GradientPreparation::GradientPreparation(RankContext& context, const Layout& layout,
                                         std::span<const BucketRef> buckets, Communicator& communicator,
                                         const DataParallelConfig& config)
    : context_(context),
      layout_(layout),
      communicator_(communicator),
      prologue_reducer_(communicator.prologue_reducer()),
      config_(config) {
  std::int64_t params = 0;
  for (const BucketRef& ref : buckets) {
    Bucket bucket{ref, gradient_scaling_factor(ref), {}, params};
    for (const int param : ref.layout().params) {
      bucket.params.push_back(at(layout.locations, param).world.shifted(-ref.layout().world.start));
    }
    params += std::ssize(bucket.params);
    buckets_.push_back(std::move(bucket));
  }
  if (!config.check_for_nan_in_grad && !config.check_for_large_grads) return;
  device_stats_ = context.device.allocate(2 * params * size_bytes(DType::fp64), MemoryKind::communication);
  host_stats_.resize(device_stats_.view(DType::fp64).numel);
}

float GradientPreparation::gradient_scaling_factor(const BucketRef& bucket) const {
  // Experts see the tokens of all ranks, so their sum too is divided by the dense group's size.
  const float dense_ranks = context_.dp_size();
  if (!config_.average_in_collective) return 1 / dense_ranks;
  return bucket.buffer->layout().expert_parallel ? communicator_.size() / dense_ranks : 1;
}

void GradientPreparation::start(trace::Collective collective) {
  by_prologue_ = collective == trace::Collective::reduce_scatter && prologue_reducer_ != nullptr &&
                 !context_.tracer.watched();
  if (by_prologue_)
    std::fill(host_stats_.begin(), host_stats_.end(), 0);
  else
    run_passes();
}

void GradientPreparation::reduce_scatter(int bucket, ReduceOp op) {
  const Bucket& from = at(buckets_, bucket);
  const TensorView shard = from.ref.grads_of(communicator_.rank());
  if (by_prologue_)
    prologue_reducer_->reduce_scatter_with(prologue(from), context_.communication, shard, from.ref.grads(),
                                           op);
  else
    communicator_.reduce_scatter(context_.communication, shard, from.ref.grads(), op);
}

ReducePrologue GradientPreparation::prologue(const Bucket& bucket) {
  if (!checks()) return {bucket.factor, {}, nullptr};
  return {bucket.factor, bucket.params, host_stats_.data() + 2 * bucket.first};
}

void GradientPreparation::run_passes() {
  Stream& stream = context_.communication;
  Ops& ops = context_.device.ops();
  const auto span = [&](trace::Kind kind, const Bucket& bucket) {
    trace::Event event;
    event.stream = trace::StreamId::communication;
    event.kind = kind;
    event.bucket = bucket.ref.global_bucket;
    return context_.tracer.span(stream, event);
  };
  trace::Tracer::Span checking;
  if (checks()) {
    checking = span(trace::Kind::check_gradients, buckets_.front());
    ops.fill(stream, device_stats_.view(DType::fp64), 0);
  }
  for (const Bucket& bucket : buckets_) {
    trace::Tracer::Span scaling;
    if (bucket.factor != 1) scaling = span(trace::Kind::scale_gradients, bucket);
    if (checks())
      check_and_scale(bucket);
    else if (bucket.factor != 1)
      ops.scale(stream, bucket.ref.grads(), bucket.factor);
  }
  if (checks()) context_.device.copy_to_host(stream, host_stats_.data(), device_stats_.view(DType::fp64));
}

/// In one pass over memory. Padding is zero and stays so: only the parameters' gradients are multiplied.
void GradientPreparation::check_and_scale(const Bucket& bucket) {
  Stream& stream = context_.communication;
  Ops& ops = context_.device.ops();
  std::int64_t position = bucket.first;
  for (const Range& param : bucket.params) {
    const TensorView stats = device_stats_.view(DType::fp64, 2 * position++, 2);
    const TensorView grads = bucket.ref.grads().slice(param);
    if (bucket.factor == 1)
      ops.grad_stats(stream, stats, grads);
    else
      ops.grad_stats_and_scale(stream, stats, grads, bucket.factor);
  }
}

void GradientPreparation::finish(const Work& reduction) const {
  if (!checks()) return;
  reduction.wait();
  std::int64_t position = 0;
  for (const Bucket& bucket : buckets_) {
    for (const int param : bucket.ref.layout().params) {
      check(param, at(host_stats_, 2 * position), at(host_stats_, 2 * position + 1));
      ++position;
    }
  }
}

void GradientPreparation::check(int param, double largest, double non_finite) const {
  if (config_.check_for_nan_in_grad && non_finite > 0) {
    throw Error(
        fmt::format("rank {}, step {}: the gradient of {} holds {:.0f} NaN or infinite values before its "
                    "reduction. Lower the learning rate, clip gradients, or train on with "
                    "--no-check-for-nan-in-loss-and-grad, which skips such steps",
                    context_.rank(), context_.tracer.step(), describe_param(layout_, param), non_finite));
  }
  if (config_.check_for_large_grads && largest > *config_.check_for_large_grads) {
    throw Error(
        fmt::format("rank {}, step {}: the gradient of {} reaches {:g} before its reduction, more than the "
                    "{:g} of --check-for-large-grads",
                    context_.rank(), context_.tracer.step(), describe_param(layout_, param), largest,
                    *config_.check_for_large_grads));
  }
}

}  // namespace zero1
