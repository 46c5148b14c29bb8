#include "core/zero1/distributed_optimizer.h"

#include <algorithm>
#include <cmath>

namespace zero1 {

using trace::Kind;

DistributedOptimizer::DistributedOptimizer(DataParallel& data_parallel, const OptimizerConfig& config)
    : data_parallel_(data_parallel),
      context_(data_parallel.context()),
      config_(config),
      multipliers_(resolve_param_groups(data_parallel.layout().specs, config.param_groups)),
      grad_scale_(context_.device.allocate(size_bytes(DType::fp32), MemoryKind::optimizer)) {
  build_shards();
  std::int64_t total_elems = 0;
  for (const ParamSpec& spec : data_parallel.layout().specs) {
    total_elems += spec.numel() * (spec.expert_parallel ? context_.dp_size() : 1);
  }
  const bool reduced = find_owned_grads();
  norm_ = std::make_unique<GradNormReducer>(context_, total_elems, reduced);
  reload_model_params();
}

namespace {

/// The rows of a rank that owns everything: plain data parallelism.
std::vector<ParamShard> whole_bucket(const Layout& layout, const BucketRef& bucket) {
  std::vector<ParamShard> rows;
  for (const int param : bucket.layout().params) {
    ParamShard row;
    row.bucket = bucket.bucket;
    row.param = param;
    row.gbuf_world = at(layout.locations, param).world;
    row.gbuf_world_in_bucket = row.gbuf_world.shifted(-bucket.layout().world.start);
    row.gbuf_local = row.gbuf_world_in_bucket;
    row.param_range = row.gbuf_world.normalized();
    if (!row.gbuf_world.empty()) rows.push_back(row);
  }
  return rows;
}

}  // namespace

void DistributedOptimizer::build_shards() {
  const Layout& layout = data_parallel_.layout();
  const bool sharded = data_parallel_.config().use_distributed_optimizer;
  const auto own_memory = [&](std::int64_t elems) {
    memory_.push_back(context_.device.allocate(elems * size_bytes(DType::fp32), MemoryKind::optimizer));
    const TensorView view = memory_.back().view(DType::fp32);
    context_.device.ops().fill(context_.compute, view, 0);
    return view;
  };
  for (const auto& buffer : data_parallel_.buffers()) {
    const int rank = data_parallel_.communicator(*buffer).rank();
    const RangeMap ranges = build_range_map(layout, buffer->index());
    for (int k = 0; k < std::ssize(buffer->layout().buckets); ++k) {
      BucketShard shard;
      shard.bucket = {buffer.get(), k, layout.global_bucket(buffer->index(), k)};
      if (sharded) {
        shard.in_bucket = buffer->layout().shard_in_bucket(k, rank);
        const auto rows = ranges.rank(rank);
        std::copy_if(rows.begin(), rows.end(), std::back_inserter(shard.params),
                     [&](const ParamShard& row) { return row.bucket == k; });
      } else {
        shard.in_bucket = shard.bucket.layout().world.normalized();
        shard.params = whole_bucket(layout, shard.bucket);
      }
      const std::int64_t elems = shard.in_bucket.size();
      shard.model_param = buffer->bucket_params(k).slice(shard.in_bucket);
      shard.model_grad = buffer->bucket_grads(k).slice(shard.in_bucket);
      shard.main_param = buffer->layout().param_dtype == DType::fp32 ? shard.model_param : own_memory(elems);
      shard.main_grad = buffer->layout().grad_dtype == DType::fp32 ? shard.model_grad : own_memory(elems);
      shard.exp_avg = own_memory(elems);
      shard.exp_avg_sq = own_memory(elems);
      shards_.push_back(std::move(shard));
    }
  }
}

/// Every logical element once over all ranks. Without sharding every rank holds all dense gradients and needs
/// nobody else; experts, though, differ from one expert-parallel rank to the next: then each rank takes the
/// part of every bucket that it would own if it were sharded. True where the ranks' parts are to be added up.
bool DistributedOptimizer::find_owned_grads() {
  const Layout& layout = data_parallel_.layout();
  const bool sharded = data_parallel_.config().use_distributed_optimizer;
  const bool experts = std::any_of(layout.specs.begin(), layout.specs.end(),
                                   [](const ParamSpec& spec) { return spec.expert_parallel; });
  for (const BucketShard& shard : shards_) {
    Range part = shard.in_bucket.normalized();
    if (!sharded && experts) {
      const int rank = data_parallel_.communicator(*shard.bucket.buffer).rank();
      part = shard.bucket.buffer->layout().shard_in_bucket(shard.bucket.bucket, rank);
    }
    for (const ParamShard& param : shard.params) {
      const Range owned = intersect(param.gbuf_local, part);
      if (!owned.empty()) owned_grads_.push_back(shard.main_grad.slice(owned));
    }
  }
  return sharded || experts;
}

void DistributedOptimizer::reload_model_params() {
  for (const BucketShard& shard : shards_) {
    if (shard.main_param.data == shard.model_param.data) continue;
    context_.device.ops().cast(context_.compute, shard.main_param, shard.model_param);
  }
}

void DistributedOptimizer::publish_main_params() {
  for (const BucketShard& shard : shards_) {
    if (shard.main_param.data == shard.model_param.data) continue;
    context_.device.ops().cast(context_.compute, shard.model_param, shard.main_param);
  }
  data_parallel_.mark_params_stale();
  data_parallel_.start_param_sync();
  data_parallel_.drain_param_gathers();
}

trace::Tracer::Span DistributedOptimizer::phase(Kind kind, int bucket) {
  trace::Event event;
  event.kind = kind;
  event.stream = trace::StreamId::compute;
  event.bucket = bucket;
  return context_.tracer.span(context_.compute, event);
}

void DistributedOptimizer::copy_model_grads_to_main_grads() {
  for (const BucketShard& shard : shards_) {
    if (shard.main_grad.data == shard.model_grad.data) continue;
    const auto span = phase(Kind::copy_grads, shard.bucket.global_bucket);
    context_.device.ops().cast(context_.compute, shard.main_grad, shard.model_grad);
  }
}

StepResult DistributedOptimizer::step(double lr, double grad_multiplier) {
  StepResult result;
  copy_model_grads_to_main_grads();
  {
    const auto span = phase(Kind::grad_norm);
    const GradNorm norm = norm_->compute(owned_grads_);
    result.grad_norm = norm.norm * grad_multiplier;
    result.non_finite = norm.non_finite;
  }
  result.skipped = result.non_finite > 0;
  if (result.skipped) return result;  // the parameters stay as they are, everywhere
  {
    const auto span = phase(Kind::clip);
    if (config_.clip_grad > 0) {
      result.clip_coefficient = std::min(1.0, config_.clip_grad / (result.grad_norm + 1e-6));
    }
    const float scale = result.clip_coefficient * grad_multiplier;
    context_.device.copy_from_host(context_.compute, grad_scale_.view(DType::fp32), &scale);
    context_.compute.synchronize();  // `scale` leaves the stack
  }
  ++step_count_;
  for (BucketShard& shard : shards_) adamw(shard, lr);
  data_parallel_.mark_params_stale();
  return result;
}

/// Main parameters, moments and the rounded model parameters in one pass, parameter by parameter since
/// each has its own learning rate and weight decay.
void DistributedOptimizer::adamw(BucketShard& shard, double lr) {
  const int bucket = shard.bucket.global_bucket;
  {
    const auto span = phase(Kind::adamw, bucket);
    for (const ParamShard& param : shard.params) {
      const ParamMultipliers& mult = at(multipliers_, param.param);
      AdamWArgs args;
      args.main_param = shard.main_param.slice(param.gbuf_local);
      args.exp_avg = shard.exp_avg.slice(param.gbuf_local);
      args.exp_avg_sq = shard.exp_avg_sq.slice(param.gbuf_local);
      args.grad = shard.main_grad.slice(param.gbuf_local);
      if (shard.model_param.data != shard.main_param.data)
        args.model_param = shard.model_param.slice(param.gbuf_local);
      args.grad_scale = grad_scale_.view(DType::fp32).as<float>();
      args.lr = lr * mult.lr_mult;
      args.beta1 = config_.adam_beta1;
      args.beta2 = config_.adam_beta2;
      args.eps = config_.adam_eps;
      args.weight_decay = config_.weight_decay * mult.weight_decay_mult;
      args.step = step_count_;
      context_.device.ops().adamw(context_.compute, args);
    }
  }
  if (!context_.tracer.enabled()) return;
  trace::Event stepped;
  stepped.kind = Kind::bucket_state;
  stepped.detail = detail_of(trace::BucketState::stepped);
  stepped.bucket = bucket;
  stepped.elem_start = shard.in_bucket.start;
  stepped.elem_end = shard.in_bucket.end;
  context_.tracer.instant(stepped);
}

}  // namespace zero1
