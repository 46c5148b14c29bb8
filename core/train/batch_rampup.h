// A global batch that grows with the data consumed. Megatron: `RampupBatchsizeNumMicroBatchesCalculator` in
// megatron/core/num_microbatches_calculator.py.
#pragma once

#include <cstdint>
#include <optional>

namespace zero1 {

/// --rampup-batch-size: from `start` sequences by `increment` up to the full global batch, in equal stretches
/// of the first `sequences` sequences.
struct BatchRampup {
  std::int64_t start = 0;
  std::int64_t increment = 0;
  std::int64_t sequences = 0;

  friend bool operator==(const BatchRampup&, const BatchRampup&) = default;
};

/// Throws InputError naming the flag: the increments must lead from start to `full` exactly, and every size
/// on the way must be a multiple of `sequences_per_microbatch` (--micro-batch-size times --dp).
void check_rampup(const BatchRampup& rampup, std::int64_t full, std::int64_t sequences_per_microbatch);

/// The global batch of the iteration that begins after `consumed` sequences.
std::int64_t global_batch_size_at(const std::optional<BatchRampup>& rampup, std::int64_t full,
                                  std::int64_t consumed);

/// The sequences that the first `iterations` iterations consume.
std::int64_t consumed_after(const std::optional<BatchRampup>& rampup, std::int64_t full,
                            std::int64_t iterations);

}  // namespace zero1
