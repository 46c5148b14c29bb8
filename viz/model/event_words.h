// Events, breakpoints and places in words: the same ones in every panel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/gate.h"
#include "core/trace/recorder.h"

namespace zero1::viz {

/// What it is, without rank and time: "backward of h.0", "reduce-scatter of bucket 3", "wait for the
/// all-gather of bucket 0", "gradient of h.0.ln_2.bias is ready", "bucket 2 is reducing".
std::string what(const trace::Event& event, const trace::RunInfo& info);

/// The same without any name or number of the run: "reduce-scatter", "forward", "bucket ready".
std::string what_happened(trace::Kind kind, std::uint8_t detail);

/// "step 2, microbatch 0", as far as the event has them; else empty.
std::string when(const trace::Event& event);

/// "before reduce-scatter of bucket 3 · rank 2 · step 4"; "before every event" where nothing is set.
std::string describe(const trace::Breakpoint& breakpoint, const trace::RunInfo& info);

/// "1 event", "2,544 events".
std::string event_count(std::int64_t events);

/// Names by number; "parameter 7" and the like where the run does not tell a name.
std::string param_name(int param, const trace::RunInfo& info);
std::string layer_name(int layer, const trace::RunInfo& info);

/// "rank 2", "ranks 0 and 3", "ranks 0, 1 and 3".
std::string ranks_in_words(const std::vector<int>& ranks);

}  // namespace zero1::viz
