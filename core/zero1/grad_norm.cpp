#include "core/zero1/grad_norm.h"

#include <cmath>

#include "core/base/at.h"
#include "core/device/slice_grids.h"

namespace zero1 {

namespace {
constexpr std::int64_t stats_count = 2;
constexpr std::int64_t slice_count = 3;
}  // namespace

GradNormReducer::GradNormReducer(RankContext& context, std::int64_t total_elems, bool reduce)
    : context_(context),
      total_elems_(total_elems),
      reduce_(reduce),
      memory_(context.device.allocate((stats_count + slice_count + 1) * size_bytes(DType::fp64),
                                      MemoryKind::optimizer)),
      inputs_ready_(context.device.create_event()) {}

GradNorm GradNormReducer::compute(const std::vector<ConstTensorView>& gradients) {
  Ops& ops = context_.device.ops();
  Stream& stream = context_.compute;
  const TensorView both = memory_.view(DType::fp64, 0, stats_count + slice_count);
  const TensorView stats = both.slice({0, stats_count});
  const TensorView slices = both.slice({stats_count, stats_count + slice_count});
  const TensorView guess = memory_.view(DType::fp64, stats_count + slice_count, 1);
  const std::vector<ReduceOp> sums(slice_count, ReduceOp::sum);
  std::vector<ReduceOp> reductions{ReduceOp::max, ReduceOp::sum};
  std::vector<double> host(stats_count + slice_count);

  ops.fill(stream, both, 0);
  if (guess_ > 0) {
    for (const ConstTensorView& grad : gradients) {
      ops.grad_stats_and_sum_of_squares(stream, stats, slices, grad, guess.as<double>(), total_elems_);
    }
    reductions.insert(reductions.end(), sums.begin(), sums.end());
    reduce_and_read(host.data(), both, reductions);
  } else {
    for (const ConstTensorView& grad : gradients) ops.grad_stats(stream, stats, grad);
    reduce_and_read(host.data(), stats, reductions);
  }
  GradNorm result;
  result.non_finite = std::llround(host[1]);
  const double largest = host[0];
  if (result.non_finite > 0 || largest == 0) return result;

  if (guess_ == 0 || SliceGrids::exponent_of(guess_) != SliceGrids::exponent_of(largest)) {
    ops.fill(stream, slices, 0);
    for (const ConstTensorView& grad : gradients) {
      ops.sum_of_squares(stream, slices, grad, stats.as<double>(), total_elems_);
    }
    reduce_and_read(host.data() + stats_count, slices, sums);
    ops.cast(stream, guess, stats.slice({0, 1}));
    guess_ = largest;
  }
  result.norm = std::sqrt(host[2] + host[3] + host[4]);
  return result;
}

/// Reduces element i of `device` over the ranks by ops[i], in one launch, and copies all to `host`.
void GradNormReducer::reduce_and_read(double* host, TensorView device, const std::vector<ReduceOp>& ops) {
  if (reduce_) {
    context_.compute.record(*inputs_ready_);
    context_.communication.wait(*inputs_ready_);
    CoalescingScope scope(*context_.groups.data_parallel, context_.communication);
    for (int i = 0; i < std::ssize(ops); ++i) {
      context_.groups.data_parallel->all_reduce(context_.communication, device.slice({i, i + 1}), at(ops, i));
    }
    scope.finish().order(context_.compute);
  }
  context_.device.copy_to_host(context_.compute, host, device);
  context_.compute.synchronize();
}

}  // namespace zero1
