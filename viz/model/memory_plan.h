// How much memory a rank needs: counted from a layout, or told by a run's events.
#pragma once

#include <cstdint>
#include <optional>

#include "core/layout/buffer_layout.h"
#include "core/train/metrics.h"
#include "viz/model/event_index.h"

namespace zero1::viz {

/// Parameters, gradients and optimizer states of one rank; activations depend on the batch and are left 0.
/// `sharded`: the optimizer's states are spread over the buffer's ranks (ZeRO-1), else every rank holds all.
MemoryReport states_of_rank(const Layout& layout, bool sharded);

/// The bytes that a rank had told of by then, from memory events; nothing where it had told none.
std::optional<MemoryReport> memory_at(const EventIndex& events, int rank, std::int64_t at_ns);

}  // namespace zero1::viz
