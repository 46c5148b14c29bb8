// All-to-all: rank r copies from every rank the piece that is meant for it.
#include <cstring>
#include <numeric>

#include "core/comm/local/algorithms.h"

namespace zero1::local {

void run_all_to_all(Calls calls, int rank) {
  const Call& own = *calls[static_cast<std::size_t>(rank)];
  std::int64_t out_start = 0;
  for (std::size_t peer = 0; peer < calls.size(); ++peer) {
    const Call& call = *calls[peer];
    const auto first = call.send_counts.begin();
    const std::int64_t in_start = std::accumulate(first, first + rank, std::int64_t{0});
    const std::int64_t count = own.receive_counts[peer];
    const ConstTensorView from = call.in.slice({in_start, in_start + count});
    const TensorView to = own.out.slice({out_start, out_start + count});
    if (count > 0) std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes()));
    out_start += count;
  }
}

}  // namespace zero1::local
