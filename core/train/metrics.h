// What a run reports: per step, and at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/layout/buffer_layout.h"
#include "core/train/communication.h"

namespace zero1 {

/// One iteration, the same on every rank but for the times, which are averages over the ranks.
struct StepMetrics {
  std::int64_t step = 0;  ///< 1 is the first
  double loss = 0;        ///< mean over the tokens of the global batch
  double grad_norm = 0;   ///< before clipping
  double lr = 0;
  std::int64_t tokens = 0;  ///< in this step, over all ranks
  double ms = 0;
  double comm_ms = 0;                ///< time with a collective running
  double exposed_comm_ms = 0;        ///< time the compute stream waited for collectives
  double overlap = 0;                ///< share of comm_ms during which the same rank computed
  bool skipped = false;              ///< non-finite gradients: nothing was updated
  std::int64_t skipped_steps = 0;    ///< of this run up to here, this one included
  std::optional<double> loss_scale;  ///< fp16
  std::optional<double> valid_loss;  ///< in evaluation steps; its exponential is the perplexity
};

/// One line of a metrics file: `{"step": 1, "loss": …}`, without a newline.
std::string to_json(const StepMetrics& metrics);

/// The same as a line of a table; cells of what a step does not have are empty. Without a newline.
std::string csv_header();
std::string to_csv(const StepMetrics& metrics);

/// Peak bytes of one rank by MemoryKind, and what plain data parallelism would hold.
struct MemoryReport {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;
};

/// What the optimizer holds for one element of a buffer: both moments, and main parameters and main gradients
/// where the buffer's own are not fp32.
std::int64_t optimizer_bytes_per_elem(const BufferLayout& buffer);

struct TrainSummary {
  Layout layout;
  std::int64_t steps = 0;
  std::int64_t skipped_steps = 0;  ///< of them
  std::int64_t last_step = 0;      ///< the last iteration's number; steps counts those of this run
  double last_loss = 0;
  std::optional<double> valid_loss;  ///< of the last evaluation, and after which iteration that was
  std::int64_t valid_step = 0;
  double tokens_per_s = 0;  ///< over all ranks, first step excluded where there are more
  double ms_per_step = 0;
  double comm_ms = 0, exposed_comm_ms = 0, overlap = 0;  ///< means over the steps, first excluded
  std::vector<MemoryReport> memory;                      ///< by rank
  MemoryReport plain_data_parallel;                      ///< the same model without sharded states
  CommunicationBytes communication;
  std::uint64_t param_hash = 0;  ///< of the final parameters' bits
  std::int64_t trace_events = 0, trace_dropped = 0;
  std::string communicator;  ///< description
  std::string device;
};

}  // namespace zero1
