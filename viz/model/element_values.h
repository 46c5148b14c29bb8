// Stretches of a live run's buffers, read while the run stands still.
#pragma once

#include <vector>

#include "core/base/range.h"
#include "viz/model/live_run.h"

namespace zero1::viz {

struct ElementValues {
  Range world;                   ///< what was read; empty where the rank's memory was not at rest
  std::vector<float> params;     ///< of the parameter buffer, as the model sees them
  std::vector<float> gradients;  ///< of the gradient buffer
};

/// Reads [world) of a buffer on one rank. For short stretches: the rank stands still meanwhile.
ElementValues read_values(const LiveRun& live, int rank, int buffer, Range world);

}  // namespace zero1::viz
