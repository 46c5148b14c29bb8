// What an event says, in numbers with units; event_words.h says it in words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/recorder.h"

namespace zero1::viz {

/// Everything that the event says, as name and value. Numbers that `info` has no name for are shown as they
/// are.
std::vector<std::pair<std::string, std::string>> event_fields(const trace::Event& event,
                                                              const trace::RunInfo& info);

/// A point in time of the run with as many digits as `step_ns`, the distance to the next label, asks for.
std::string time_label(double at_ns, double step_ns);

}  // namespace zero1::viz
