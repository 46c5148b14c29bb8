// All-reduce: rank r reduces the r-th piece of all ranks' data and writes the result to all of them, which
// is a reduce-scatter and an all-gather in one pass: the lines it writes are still in its cache from
// reading them. Every element is computed once, by one rank, so that all ranks get the same bits.
#include <algorithm>
#include <vector>

#include "core/comm/local/algorithms.h"
#include "core/comm/local/reduce.h"

namespace zero1::local {

void run_all_reduce(Calls calls, int rank) {
  const Call& own = *calls[static_cast<std::size_t>(rank)];
  const auto size = static_cast<std::int64_t>(calls.size());
  // Pieces of whole cache lines; the last ranks' may be short or empty.
  constexpr std::int64_t line_elems = 64;
  const std::int64_t lines = (own.out.numel + line_elems - 1) / line_elems;
  const std::int64_t piece_elems = (lines + size - 1) / size * line_elems;
  const Range piece = intersect({0, own.out.numel}, Range{0, piece_elems}.shifted(rank * piece_elems));
  if (piece.empty()) return;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Call* call : calls) {
    inputs.push_back(call->in.slice(piece).data);
    outputs.push_back(call->out.slice(piece).data);
  }
  reduce(own.out.dtype, own.op, inputs, outputs, piece.size());
}

}  // namespace zero1::local
