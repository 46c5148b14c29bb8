// Events in words and units, for bars, tooltips and lists.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/recorder.h"

namespace zero1::viz {

/// "reduce-scatter", "forward", "bucket ready": the kind, and what a detail adds to it.
std::string what_happened(trace::Kind kind, std::uint8_t detail);

/// One line: "forward block 1", "reduce-scatter bucket 3", "gradient ready h.0.weight".
std::string event_title(const trace::Event& event, const trace::RunInfo& info);

/// Everything that the event says, as name and value. Numbers that `info` has no name for are shown as they
/// are.
std::vector<std::pair<std::string, std::string>> event_fields(const trace::Event& event,
                                                              const trace::RunInfo& info);

/// "parameter 3" or its name; likewise below.
std::string param_name(int param, const trace::RunInfo& info);
std::string layer_name(int layer, const trace::RunInfo& info);

/// A point in time of the run with as many digits as `step_ns`, the distance to the next label, asks for.
std::string time_label(double at_ns, double step_ns);

}  // namespace zero1::viz
