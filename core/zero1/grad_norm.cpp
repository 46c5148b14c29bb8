#include "core/zero1/grad_norm.h"

#include <cmath>

namespace zero1 {

namespace {
constexpr std::int64_t stats_count = 2;
constexpr std::int64_t slice_count = 3;
}  // namespace

GradNormReducer::GradNormReducer(RankContext& context, std::int64_t total_elems, bool reduce)
    : context_(context),
      total_elems_(total_elems),
      reduce_(reduce),
      memory_(context.device.allocate((stats_count + slice_count) * size_bytes(DType::fp64),
                                      MemoryKind::optimizer)),
      inputs_ready_(context.device.create_event()) {}

GradNorm GradNormReducer::compute(const std::vector<ConstTensorView>& gradients) {
  Ops& ops = context_.device.ops();
  const TensorView stats = memory_.view(DType::fp64, 0, stats_count);
  const TensorView slices = memory_.view(DType::fp64, stats_count, slice_count);
  ops.fill(context_.compute, memory_.view(DType::fp64), 0);

  for (const ConstTensorView& grad : gradients) ops.grad_stats(context_.compute, stats, grad);
  std::vector<double> host(stats_count);
  reduce_and_read(host, stats, {ReduceOp::max, ReduceOp::sum});
  GradNorm result;
  result.non_finite = static_cast<std::int64_t>(host[1]);
  if (result.non_finite > 0) return result;

  for (const ConstTensorView& grad : gradients) {
    ops.sum_of_squares(context_.compute, slices, grad, stats.as<double>(), total_elems_);
  }
  host.resize(slice_count);
  reduce_and_read(host, slices, std::vector<ReduceOp>(slice_count, ReduceOp::sum));
  result.norm = std::sqrt(host[0] + host[1] + host[2]);
  return result;
}

/// Reduces element i of `device` over the ranks by ops[i], in one launch, and copies all to the host.
void GradNormReducer::reduce_and_read(std::vector<double>& host, TensorView device,
                                      const std::vector<ReduceOp>& ops) {
  if (reduce_) {
    context_.compute.record(*inputs_ready_);
    context_.communication.wait(*inputs_ready_);
    CoalescingScope scope(*context_.groups.data_parallel, context_.communication);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto first = static_cast<std::int64_t>(i);
      context_.groups.data_parallel->all_reduce(context_.communication, device.slice({first, first + 1}),
                                                ops[i]);
    }
    scope.finish().order(context_.compute);
  }
  context_.device.copy_to_host(context_.compute, host.data(), device);
  context_.compute.synchronize();
}

}  // namespace zero1
