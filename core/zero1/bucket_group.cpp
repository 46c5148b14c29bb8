#include "core/zero1/bucket_group.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/base/error.h"

namespace zero1 {

using trace::BucketState;
using trace::Collective;

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
      reduction_kind_(config.use_distributed_optimizer && !config.force_all_reduce
                          ? Collective::reduce_scatter
                          : Collective::all_reduce),
      preparation_(context, layout, buckets_, communicator_, config_),
      trace_(context, buckets_, communicator_.modelled()),
      count_of_param_(layout.specs.size(), -1),
      inputs_ready_(context.device.create_event()),
      reduction_done_(context.device.create_event()),
      gather_done_(context.device.create_event()) {
  for (const BucketRef& bucket : buckets_) {
    for (const int param : bucket.layout().params) {
      at(count_of_param_, param) = std::ssize(counts_);
      counts_.push_back({param, 0, 0});
    }
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
  trace_.state(BucketState::accumulating);
}

void BucketGroup::register_grad_ready(int param) {
  ReadyCount& count = at(counts_, at(count_of_param_, param));
  reported_ = true;
  ++count.now;
  if (first_iteration_) return;
  if (count.now > count.golden) {
    throw Error(
        fmt::format("{} reported its gradient {} times in this iteration, but {} times in the first: its "
                    "bucket may have been reduced already. A model must report alike in every iteration",
                    describe_param(layout_, param), count.now, count.golden));
  }
  if (count.now == count.golden) ++complete_;
  if (config_.overlap_grad_reduce && complete_ == std::ssize(counts_)) start_grad_sync();
}

void BucketGroup::check_reports() const {
  std::string missing;
  for (const ReadyCount& count : counts_) {
    const int expected = first_iteration_ ? std::max(1, count.now) : count.golden;
    if (count.now == expected) continue;
    missing += fmt::format("\n  {}: reported {} of {} times", describe_param(layout_, count.param), count.now,
                           expected);
  }
  if (!missing.empty()) {
    throw Error(
        fmt::format("rank {}, step {}: gradients are missing in the last microbatch, so their buckets cannot "
                    "be reduced:{}\nEvery parameter must take part in every iteration's loss",
                    context_.rank(), context_.tracer.step(), missing));
  }
}

// ---- launching and waiting ------------------------------------------------------------------------

void BucketGroup::order_communication_after_compute() {
  context_.compute.record(*inputs_ready_);
  context_.communication.wait(*inputs_ready_);
}

/// One coalesced launch: `issue(b)` calls the communicator for the group's bucket number b. The Work is
/// complete at `done`, which lies behind the trace's end stamps: nobody goes on before a run has its end.
template <class Issue>
Work BucketGroup::launch(Collective what, const std::shared_ptr<Event>& done, Issue&& issue) {
  CollectiveTrace::Spans runs = trace_.issue(what, first_iteration_);
  CoalescingScope scope(communicator_, context_.communication);
  for (int b = 0; b < std::ssize(buckets_); ++b) issue(b);
  scope.finish();
  runs.end();
  context_.communication.record(*done);
  return Work(done);
}

void BucketGroup::wait_for(Work& work, Collective what) {
  const CollectiveTrace::Spans waits = trace_.wait(what, first_iteration_);
  work.order(context_.compute);
  work = Work();
}

// ---- gradients ------------------------------------------------------------------------------------

void BucketGroup::start_grad_sync() {
  if (reduction_.valid()) {
    throw Error(fmt::format("bucket {}: a reduction is outstanding already; only one may be at a time",
                            buckets_.front().global_bucket));
  }
  trace_.state(BucketState::ready);
  order_communication_after_compute();
  preparation_.start(reduction_kind_);
  const ReduceOp op = config_.average_in_collective ? ReduceOp::average : ReduceOp::sum;
  reduction_ = launch(reduction_kind_, reduction_done_, [&](int b) {
    if (reduction_kind_ == Collective::reduce_scatter)
      preparation_.reduce_scatter(b, op);
    else
      communicator_.all_reduce(context_.communication, at(buckets_, b).grads(), op);
  });
  trace_.state(BucketState::reducing);
}

void BucketGroup::finish_grad_sync() {
  check_reports();
  if (!reduction_.valid()) start_grad_sync();
  const Work reduction = reduction_;
  wait_for(reduction_, reduction_kind_);
  preparation_.finish(reduction);
  trace_.state(BucketState::reduced);
}

// ---- parameters -----------------------------------------------------------------------------------

void BucketGroup::start_param_sync() {
  if (params_ != Params::stale) return;
  order_communication_after_compute();
  trace_.state(BucketState::gathering);
  gather_ = launch(Collective::all_gather, gather_done_, [&](int b) {
    const BucketRef& bucket = at(buckets_, b);
    communicator_.all_gather(context_.communication, bucket.params(), bucket.params_of(communicator_.rank()));
  });
  params_ = Params::gathering;
}

bool BucketGroup::finish_param_sync() {
  if (params_ == Params::current) return false;
  start_param_sync();
  wait_for(gather_, Collective::all_gather);
  params_ = Params::current;
  trace_.state(BucketState::current);
  return true;
}

}  // namespace zero1
