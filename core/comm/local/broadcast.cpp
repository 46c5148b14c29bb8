// Broadcast: every rank but the root copies the root's data.
#include <cstring>

#include "core/comm/local/algorithms.h"

namespace zero1::local {

void run_broadcast(Calls calls, int rank) {
  const Call& own = *calls[static_cast<std::size_t>(rank)];
  const Call& root = *calls[static_cast<std::size_t>(own.root)];
  if (own.out.bytes() > 0 && own.out.data != root.in.data) {
    std::memcpy(own.out.data, root.in.data, static_cast<std::size_t>(own.out.bytes()));
  }
}

}  // namespace zero1::local
