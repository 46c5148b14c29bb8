// All-gather: rank r copies every rank's input into its own output.
#include <cstring>

#include "core/comm/local/algorithms.h"
#include "core/device/cpu/vec.h"

namespace zero1::local {

namespace {

/// Outputs from this size on do not stay in the caches until somebody reads them.
constexpr std::int64_t beyond_caches = std::int64_t{32} << 20;

}  // namespace

void run_all_gather(Calls calls, int rank) {
  const Call& own = *calls[static_cast<std::size_t>(rank)];
  const int size = static_cast<int>(calls.size());
  for (int step = 0; step < size; ++step) {
    const int peer =
        (rank + step) % size;  // each rank begins elsewhere, so that they do not crowd one memory
    const ConstTensorView from = calls[static_cast<std::size_t>(peer)]->in;
    const TensorView to = own.out.slice(Range{0, from.numel}.shifted(peer * from.numel));
    if (from.bytes() > 0 && to.data != from.data) {
      const auto bytes = static_cast<std::size_t>(from.bytes());
      if (own.out.bytes() < beyond_caches)
        std::memcpy(to.data, from.data, bytes);
      else
        cpu::copy_past_caches(to.data, from.data, bytes);
    }
  }
}

}  // namespace zero1::local
