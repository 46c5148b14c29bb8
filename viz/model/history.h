// Going back and forth in what has been seen. The run does not move; only the moment that is shown does.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "viz/model/change.h"
#include "viz/model/document.h"

namespace zero1::viz {

/// How far one step of the view goes, as the gate's commands of the same names.
enum class StepUnit : std::uint8_t { event, bucket, phase, iteration };
inline constexpr int step_unit_count = 4;

std::string_view name(StepUnit unit);

/// Where the view goes from `at_ns`: the time of the event that the step leads to; nothing where the record
/// ends. The order is that of the record, in which an event lies where it ended.
///   event      the event before or after
///   bucket     the next event that has a bucket, and another one than the last event with a bucket
///   phase      the next event of another kind than the last event
///   iteration  the next end of a step
/// Backwards, bucket and phase lead to the last event of the stretch before.
std::optional<std::int64_t> step_view(const EventIndex& events, std::int64_t at_ns, StepUnit unit,
                                      bool forward);

/// What lies between two moments, later one included, whichever comes first.
Change change_between(const EventIndex& events, std::int64_t a_ns, std::int64_t b_ns);

/// The moment that a document shows: `at_ns`, or the newest event's end while it follows.
std::int64_t shown_ns(const Document& document);

/// Moves the document's moment and marks what lies between. Going forward beyond the last event follows.
void go_back(Document& document, StepUnit unit);
void go_forward(Document& document, StepUnit unit);
/// To a time, as a click on an event does.
void go_to(Document& document, std::int64_t at_ns);
void follow(Document& document);

/// Once per frame: takes over what a live run has recorded, moves a following moment to its end and marks
/// what the run's last step has changed. Without a live run it only moves the moment.
void take_over(Document& document);

}  // namespace zero1::viz
