// Traces for https://ui.perfetto.dev and chrome://tracing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/trace/reader.h"

namespace zero1::trace {

struct ExportResult {
  std::int64_t events = 0;  ///< of the trace
  std::int64_t flows = 0;   ///< arrows
  std::int64_t bytes = 0;   ///< of the file
};

/// Writes the trace as Chrome trace event JSON: one process per rank, one thread per stream, nested slices,
/// instants, memory counters, and flow arrows gradient ready → collective and issue → run → wait. The file
/// appears whole or not at all. `progress` (may be empty) is called with the written share, 0 … 1, some
/// hundred times. Memory: about 150 bytes per event. Throws Error where writing fails.
ExportResult export_chrome(const Reader& reader, const std::string& path,
                           const std::function<void(double)>& progress = {});

}  // namespace zero1::trace
