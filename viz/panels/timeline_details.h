// What the timeline says in words: under the cursor, and about a measured range.
#pragma once

#include "viz/model/range_statistics.h"
#include "viz/panels/timeline_scene.h"

namespace zero1::viz {

/// Everything of one event; `id` is a number in the document.
void show_event_tooltip(const Document& document, const Theme& theme, EventId id);
/// A bar that stands for several events.
void show_merged_tooltip(const Document& document, const Theme& theme, const TimelineBar& bar);
void show_step_tooltip(const EventIndex::Step& step, bool prepares);

/// Two tables: what happened in the range, and what each rank overlapped and had exposed.
void show_statistics(const RangeStatistics& statistics, const Theme& theme);

}  // namespace zero1::viz
