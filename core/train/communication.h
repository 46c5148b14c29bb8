// What the collectives of a step are given. Arithmetic: it follows from the layout, and no clock changes it.
#pragma once

#include <cstdint>

#include "core/layout/buffer_layout.h"
#include "core/zero1/options.h"

namespace zero1 {

/// Bytes that one rank contributes in a step that updates the parameters, padding included: whole buckets of
/// gradients to a reduction, its own shards of parameters to a gather. The few scalars on which ranks agree,
/// such as the gradient norm, are left out.
struct CommunicationBytes {
  std::int64_t reduce_scatter = 0;
  std::int64_t all_gather = 0;
  std::int64_t all_reduce = 0;
};

CommunicationBytes step_communication(const Layout& layout, const DataParallelConfig& config);

}  // namespace zero1
