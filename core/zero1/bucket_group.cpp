#include "core/zero1/bucket_group.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"

namespace zero1 {

using trace::BucketState;
using trace::Collective;
using trace::Kind;

namespace {

Communicator& communicator_of(const RankContext& context, const BucketRef& bucket) {
  if (!bucket.buffer->layout().expert_parallel) return *context.groups.data_parallel;
  if (context.groups.expert_data_parallel == nullptr) {
    throw InputError(
        "the model has expert-parallel parameters, but the run has no expert data-parallel group");
  }
  return *context.groups.expert_data_parallel;
}

}  // namespace

BucketGroup::BucketGroup(RankContext& context, const Layout& layout, std::vector<BucketRef> buckets,
                         const DataParallelConfig& config)
    : context_(context),
      layout_(layout),
      buckets_(std::move(buckets)),
      config_(config),
      communicator_(communicator_of(context, buckets_.front())),
      count_of_param_(layout.specs.size(), -1),
      inputs_ready_(context.device.create_event()),
      reduction_done_(context.device.create_event()),
      gather_done_(context.device.create_event()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const auto first = static_cast<std::int64_t>(counts_.size());
    const BucketLayout& bucket = buckets_[b].layout();
    for (const int param : bucket.params) {
      count_of_param_[static_cast<std::size_t>(param)] = static_cast<int>(counts_.size());
      counts_.push_back({param, static_cast<int>(b), 0, 0});
      ranges_.push_back(layout.locations[static_cast<std::size_t>(param)].world.shifted(-bucket.world.start));
    }
    bucket_counts_.push_back({first, static_cast<std::int64_t>(counts_.size())});
  }
  if (config_.check_for_nan_in_grad || config_.check_for_large_grads) {
    host_stats_.resize(2 * counts_.size());
    grad_stats_ = context_.device.allocate(static_cast<std::int64_t>(host_stats_.size() * sizeof(double)),
                                           MemoryKind::communication);
  }
}

// ---- ready-counting -------------------------------------------------------------------------------

void BucketGroup::reset() {
  if (first_iteration_ && reported_) {
    for (ReadyCount& count : counts_) count.golden = count.now;
    first_iteration_ = false;
  }
  for (ReadyCount& count : counts_) count.now = 0;
  complete_ = 0;
  reported_ = false;
  emit_state(BucketState::accumulating);
}

void BucketGroup::register_grad_ready(int param) {
  ReadyCount& count = counts_[static_cast<std::size_t>(count_of_param_[static_cast<std::size_t>(param)])];
  reported_ = true;
  ++count.now;
  if (first_iteration_) return;
  if (count.now > count.golden) {
    throw Error(
        fmt::format("{} reported its gradient {} times in this iteration, but {} times in the first: its "
                    "bucket may have been reduced already. A model must report alike in every iteration",
                    describe(count), count.now, count.golden));
  }
  if (count.now == count.golden) ++complete_;
  if (config_.overlap_grad_reduce && complete_ == static_cast<int>(counts_.size())) start_grad_sync();
}

void BucketGroup::check_reports() const {
  std::string missing;
  for (const ReadyCount& count : counts_) {
    const int expected = first_iteration_ ? std::max(1, count.now) : count.golden;
    if (count.now == expected) continue;
    missing += fmt::format("\n  {}: reported {} of {} times", describe(count), count.now, expected);
  }
  if (!missing.empty()) {
    throw Error(
        fmt::format("rank {}, step {}: gradients are missing in the last microbatch, so their buckets cannot "
                    "be reduced:{}\nEvery parameter must take part in every iteration's loss",
                    context_.rank(), context_.tracer.step(), missing));
  }
}

std::string BucketGroup::describe(const ReadyCount& count) const {
  return fmt::format("parameter '{}' (bucket {})", layout_.specs[static_cast<std::size_t>(count.param)].name,
                     buckets_[static_cast<std::size_t>(count.bucket)].global_bucket);
}

// ---- launching and waiting ------------------------------------------------------------------------

trace::Event BucketGroup::collective_event(Kind kind, Collective what, const BucketRef& bucket) const {
  const BufferLayout& buffer = bucket.buffer->layout();
  trace::Event event;
  event.kind = kind;
  event.stream = kind == Kind::collective_run ? trace::StreamId::communication : trace::StreamId::compute;
  event.detail = static_cast<std::uint8_t>(what);
  event.bucket = bucket.global_bucket;
  event.elem_end = bucket.layout().world.size();
  event.bytes =
      event.elem_end * size_bytes(what == Collective::all_gather ? buffer.param_dtype : buffer.grad_dtype);
  if (what == Collective::all_gather) event.bytes /= buffer.dp_size;  // what this rank contributes
  if (buckets_.size() > 1) event.flags |= trace::Flags::coalesced;
  if (first_iteration_) event.flags |= trace::Flags::first_iteration;
  if (communicator_.modelled()) event.flags |= trace::Flags::modelled_link;
  return event;
}

void BucketGroup::emit_state(BucketState state) {
  if (!context_.tracer.enabled()) return;
  for (const BucketRef& bucket : buckets_) {
    trace::Event event;
    event.kind = Kind::bucket_state;
    event.detail = static_cast<std::uint8_t>(state);
    event.bucket = bucket.global_bucket;
    event.elem_end = bucket.layout().world.size();
    context_.tracer.instant(event);
  }
}

/// Issues one coalesced launch: `launch_bucket(b)` calls the communicator for each bucket. The Work is
/// complete at `done`, which lies behind the trace's end stamps: nobody goes on before a run has its end.
template <class Launch>
Work BucketGroup::launch(Collective what, const std::shared_ptr<Event>& done, Launch&& launch_bucket) {
  std::vector<trace::Tracer::Span> runs;
  if (context_.tracer.enabled()) {
    for (const BucketRef& bucket : buckets_) {
      trace::Event issue = collective_event(Kind::collective_issue, what, bucket);
      issue.stream = trace::StreamId::host;
      context_.tracer.instant(issue);
      runs.push_back(
          context_.tracer.span(context_.communication, collective_event(Kind::collective_run, what, bucket)));
    }
  }
  CoalescingScope scope(communicator_, context_.communication);
  for (std::size_t b = 0; b < buckets_.size(); ++b) launch_bucket(b);
  scope.finish();
  while (!runs.empty()) runs.pop_back();  // innermost span first
  context_.communication.record(*done);
  return Work(done);
}

void BucketGroup::wait_for(Work& work, Collective what) {
  std::vector<trace::Tracer::Span> waits;
  if (context_.tracer.enabled()) {
    for (const BucketRef& bucket : buckets_) {
      waits.push_back(
          context_.tracer.span(context_.compute, collective_event(Kind::collective_wait, what, bucket)));
    }
  }
  work.order(context_.compute);
  work = Work();
  while (!waits.empty()) waits.pop_back();
}

// ---- gradients ------------------------------------------------------------------------------------

float BucketGroup::gradient_scaling_factor(const BucketRef& bucket) const {
  // Experts see the tokens of all ranks, so their sum too is divided by the dense group's size.
  const bool expert = bucket.buffer->layout().expert_parallel;
  if (!config_.average_in_collective) return 1.0F / static_cast<float>(context_.dp_size());
  if (!expert) return 1.0F;
  return static_cast<float>(communicator_.size()) / static_cast<float>(context_.dp_size());
}

/// What happens to gradients before their collective, queued on the communication stream: checks and scaling,
/// in one pass over memory where both are due.
void BucketGroup::prepare_gradients() {
  trace::Event event;
  event.stream = trace::StreamId::communication;
  event.kind = Kind::check_gradients;
  event.bucket = buckets_.front().global_bucket;
  const bool checks = !host_stats_.empty();
  trace::Tracer::Span checking;
  if (checks) {
    checking = context_.tracer.span(context_.communication, event);
    context_.device.ops().fill(context_.communication, grad_stats_.view(DType::fp64), 0);
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const float factor = gradient_scaling_factor(buckets_[b]);
    trace::Tracer::Span scaling;
    if (factor != 1.0F) {
      event.kind = Kind::scale_gradients;
      event.bucket = buckets_[b].global_bucket;
      scaling = context_.tracer.span(context_.communication, event);
    }
    if (checks)
      check_and_scale(b, factor);
    else if (factor != 1.0F)
      context_.device.ops().scale(context_.communication,
                                  buckets_[b].buffer->bucket_grads(buckets_[b].bucket), factor);
  }
  if (checks) {
    context_.device.copy_to_host(context_.communication, host_stats_.data(), grad_stats_.view(DType::fp64));
  }
}

/// Checks and scaling on the way into the bucket's reduce-scatter.
ReducePrologue BucketGroup::prologue(std::size_t bucket) {
  const Range counts = bucket_counts_[bucket];
  ReducePrologue prologue;
  prologue.factor = gradient_scaling_factor(buckets_[bucket]);
  if (host_stats_.empty()) return prologue;
  prologue.parts = std::span(ranges_).subspan(static_cast<std::size_t>(counts.start),
                                              static_cast<std::size_t>(counts.size()));
  prologue.stats = host_stats_.data() + 2 * counts.start;
  return prologue;
}

/// Padding is zero and stays so: only the parameters' gradients are multiplied.
void BucketGroup::check_and_scale(std::size_t bucket, float factor) {
  Stream& stream = context_.communication;
  Ops& ops = context_.device.ops();
  const Range counts = bucket_counts_[bucket];
  for (std::int64_t i = counts.start; i < counts.end; ++i) {
    const TensorView stats = grad_stats_.view(DType::fp64).slice({2 * i, 2 * i + 2});
    const TensorView grad = buckets_[bucket].buffer->main_grad(counts_[static_cast<std::size_t>(i)].param);
    if (factor == 1.0F)
      ops.grad_stats(stream, stats, grad);
    else
      ops.grad_stats_and_scale(stream, stats, grad, factor);
  }
}

void BucketGroup::start_grad_sync() {
  if (reduction_outstanding_) {
    throw Error(fmt::format("bucket {}: a reduction is outstanding already; only one may be at a time",
                            buckets_.front().global_bucket));
  }
  emit_state(BucketState::ready);
  context_.compute.record(*inputs_ready_);
  context_.communication.wait(*inputs_ready_);
  const bool prepares = !scatters() || !communicator_.takes_prologue() || context_.tracer.watched();
  if (prepares)
    prepare_gradients();
  else
    std::fill(host_stats_.begin(), host_stats_.end(), 0);

  const ReduceOp op = config_.average_in_collective ? ReduceOp::average : ReduceOp::sum;
  Stream& stream = context_.communication;
  reduction_ = launch(
      scatters() ? Collective::reduce_scatter : Collective::all_reduce, reduction_done_, [&](std::size_t b) {
        const BucketRef& bucket = buckets_[b];
        const TensorView grads = bucket.buffer->bucket_grads(bucket.bucket);
        if (!scatters()) {
          communicator_.all_reduce(stream, grads, op);
          return;
        }
        const TensorView own = bucket.buffer->shard_grads(bucket.bucket, communicator_.rank());
        communicator_.reduce_scatter(stream, own, grads, op, prepares ? ReducePrologue{} : prologue(b));
      });
  reduction_outstanding_ = true;
  emit_state(BucketState::reducing);
}

void BucketGroup::finish_grad_sync() {
  check_reports();
  if (!reduction_outstanding_) start_grad_sync();
  const Work reduction = reduction_;
  wait_for(reduction_, scatters() ? Collective::reduce_scatter : Collective::all_reduce);
  reduction_outstanding_ = false;
  if (!host_stats_.empty()) {
    reduction.wait();  // the checks' results lie on the host after this
    check_gradients();
  }
  emit_state(BucketState::reduced);
}

void BucketGroup::check_gradients() {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const double largest = host_stats_[2 * i];
    const double non_finite = host_stats_[2 * i + 1];
    if (config_.check_for_nan_in_grad && non_finite > 0) {
      throw Error(
          fmt::format("rank {}, step {}: the gradient of {} holds {:.0f} NaN or infinite values before its "
                      "reduction. Lower the learning rate, clip gradients, or train on with "
                      "--no-check-for-nan-in-loss-and-grad, which skips such steps",
                      context_.rank(), context_.tracer.step(), describe(counts_[i]), non_finite));
    }
    if (config_.check_for_large_grads && largest > *config_.check_for_large_grads) {
      throw Error(
          fmt::format("rank {}, step {}: the gradient of {} reaches {:g} before its reduction, more than the "
                      "{:g} of --check-for-large-grads",
                      context_.rank(), context_.tracer.step(), describe(counts_[i]), largest,
                      *config_.check_for_large_grads));
    }
  }
}

// ---- parameters -----------------------------------------------------------------------------------

void BucketGroup::start_param_sync() {
  if (gather_ != Gather::due) return;
  context_.compute.record(*inputs_ready_);
  context_.communication.wait(*inputs_ready_);
  emit_state(BucketState::gathering);
  Stream& stream = context_.communication;
  gathering_ = launch(Collective::all_gather, gather_done_, [&](std::size_t b) {
    const BucketRef& bucket = buckets_[b];
    communicator_.all_gather(stream, bucket.buffer->bucket_params(bucket.bucket),
                             bucket.buffer->shard_params(bucket.bucket, communicator_.rank()));
  });
  gather_ = Gather::dispatched;
}

bool BucketGroup::finish_param_sync() {
  if (gather_ == Gather::none) return false;
  start_param_sync();
  wait_for(gathering_, Collective::all_gather);
  gather_ = Gather::none;
  emit_state(BucketState::current);
  return true;
}

}  // namespace zero1
