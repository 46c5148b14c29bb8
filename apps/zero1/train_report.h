// What `zero1 train` prints and draws.
#pragma once

#include <string>

#include "core/train/config.h"
#include "core/train/machine.h"
#include "core/train/metrics.h"

namespace zero1::app {

/// Its lines, and its warnings on standard error.
void print_machine(const MachineDescription& machine);

void print_header(const TrainConfig& config);
void print_step(const TrainConfig& config, const StepMetrics& step);
void print_summary(const TrainConfig& config, const TrainSummary& summary);

/// Writes the ownership map of the run's layout. Throws Error when it cannot be written.
void write_ownership_svg(const TrainSummary& summary, const std::string& path);

}  // namespace zero1::app
