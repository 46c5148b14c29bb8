// The strip above the timeline: one bar per iteration, as tall as the iteration is long.
#pragma once

#include <optional>

#include "viz/model/event_index.h"
#include "viz/panels/draw.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

/// Draws it in the box, with the steps that touch `window` lit up; where there are more steps than fit, a bar
/// stands for the longest of its neighbours; says so where the first iteration prepares; the `selected`
/// step's is outlined. Returns the index (into EventIndex::steps) that the mouse is on.
std::optional<std::size_t> draw_step_strip(ImDrawList& list, const EventIndex& events, const Theme& theme,
                                           const Box& box, trace::Interval window,
                                           std::optional<int> selected);

}  // namespace zero1::viz
