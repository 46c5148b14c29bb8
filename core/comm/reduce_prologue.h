// Work on a reduction's input while it is read.
#pragma once

#include <span>

#include "core/base/range.h"
#include "core/comm/work.h"
#include "core/device/tensor_view.h"

namespace zero1 {

enum class ReduceOp : std::uint8_t;

/// What happens to this rank's input on its way into a reduction: statistics of its parts, and a
/// multiplication. A prologue only saves time. Whoever gives none queues Ops::grad_stats and Ops::scale
/// before the collective, and the reduction has the same bits; but the prologue leaves the input in memory
/// as it is.
struct ReducePrologue {
  float factor = 1;              ///< as of Ops::scale, for the whole input
  std::span<const Range> parts;  ///< of the input, in elements, ascending and disjoint
  double* stats = nullptr;       ///< host memory, [parts][2]: as `out` of Ops::grad_stats, before the factor

  bool empty() const { return factor == 1 && parts.empty(); }
};

/// A communicator's reduce-scatter for those that give prologues. Not every backend has one: see
/// Communicator::prologue_reducer.
class PrologueReducer {
 public:
  /// As Communicator::reduce_scatter. `prologue` is this rank's own matter: peers may give others, or
  /// none. What it points to stays valid until the collective is done. The dtype is not fp64.
  virtual Work reduce_scatter_with(const ReducePrologue& prologue, Stream& stream, TensorView out,
                                   ConstTensorView in, ReduceOp op) = 0;

 protected:
  ~PrologueReducer() = default;
};

}  // namespace zero1
