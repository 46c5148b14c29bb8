// Traces for https://ui.perfetto.dev and chrome://tracing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/trace/reader.h"
#include "core/trace/selection.h"

namespace zero1::trace {

struct ExportResult {
  std::int64_t events = 0;  ///< of the trace
  std::int64_t flows = 0;   ///< arrows
  std::int64_t bytes = 0;   ///< of the file
};

struct ExportOptions {
  Selection selection;
  /// May be empty. Called before anything is written; `bytes` is an estimate from a sample of the events.
  std::function<void(const ExportResult&)> on_plan;
  /// May be empty. Called with the written share, 0 … 1, some hundred times.
  std::function<void(double)> progress;
  bool dry_run = false;  ///< end after on_plan; the result is what it was given
};

/// Writes the selected events as Chrome trace event JSON: one process per rank, one thread per stream, nested
/// slices, instants, memory counters, and flow arrows gradient ready → collective and issue → run → wait,
/// between events that are both selected. The file appears whole or not at all. Memory: about 150 bytes per
/// selected event. Throws InputError as read_selected, Error where writing fails.
ExportResult export_chrome(const Reader& reader, const std::string& path, const ExportOptions& options = {});

}  // namespace zero1::trace
