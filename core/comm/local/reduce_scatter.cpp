// Reduce-scatter: rank r reduces the r-th piece of all inputs into its output.
#include <vector>

#include "core/comm/local/algorithms.h"
#include "core/comm/local/reduce.h"

namespace zero1::local {

void run_reduce_scatter(Calls calls, int rank) {
  const Call& own = *calls[static_cast<std::size_t>(rank)];
  const Range piece = Range{0, own.out.numel}.shifted(rank * own.out.numel);
  std::vector<const void*> inputs;
  for (const Call* call : calls) inputs.push_back(call->in.slice(piece).data);
  // In place, the output is this rank's piece of its own input, which no peer reads.
  reduce(own.out.dtype, own.op, inputs, std::span(&own.out.data, 1), piece.size());
}

}  // namespace zero1::local
