#include "core/train/batch_rampup.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"

namespace zero1 {

void check_rampup(const BatchRampup& r, std::int64_t full, std::int64_t sequences_per_microbatch) {
  const auto require = [&](bool holds, const std::string& what) {
    if (holds) return;
    throw InputError(
        fmt::format("--rampup-batch-size {} {} {}: {}", r.start, r.increment, r.sequences, what));
  };
  require(r.start >= 1, "the batch to START with must be at least 1");
  require(r.increment >= 1, "the INCREMENT must be at least 1");
  require(r.sequences >= 1, "the SAMPLES to ramp up over must be at least 1");
  require(r.start < full,
          fmt::format("the batch to START with must be smaller than --global-batch-size ({}), "
                      "else there is nothing to ramp up",
                      full));
  require((full - r.start) % r.increment == 0,
          fmt::format("from START to --global-batch-size ({}) are {}, which is no multiple of the INCREMENT",
                      full, full - r.start));
  // Of the sizes between, all are multiples where the first two are: the full batch is one.
  for (const std::int64_t size : {r.start, r.start + r.increment}) {
    require(size % sequences_per_microbatch == 0,
            fmt::format("the batch of {} on the way is no multiple of --micro-batch-size times --dp ({})",
                        size, sequences_per_microbatch));
  }
}

std::int64_t global_batch_size_at(const std::optional<BatchRampup>& rampup, std::int64_t full,
                                  std::int64_t consumed) {
  if (!rampup || consumed > rampup->sequences) return full;
  // As Megatron divides, so that the batch grows at the same sequence.
  const std::int64_t increments = (full - rampup->start) / rampup->increment;
  const double per_increment = static_cast<double>(rampup->sequences) / static_cast<double>(increments);
  const auto steps = static_cast<std::int64_t>(static_cast<double>(consumed) / per_increment);
  return std::min(full, rampup->start + steps * rampup->increment);
}

std::int64_t consumed_after(const std::optional<BatchRampup>& rampup, std::int64_t full,
                            std::int64_t iterations) {
  std::int64_t consumed = 0;
  if (rampup) {
    for (; iterations > 0 && consumed <= rampup->sequences; --iterations)
      consumed += global_batch_size_at(rampup, full, consumed);
  }
  return consumed + iterations * full;
}

}  // namespace zero1
