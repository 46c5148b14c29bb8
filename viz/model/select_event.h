// Selecting an event selects all that it is about.
#pragma once

#include "core/trace/event.h"
#include "viz/model/selection.h"

namespace zero1::viz {

inline Selection select_event(EventId id, const trace::Event& event) {
  Selection selection;
  selection.event = id;
  selection.rank = event.rank;
  if (event.bucket >= 0) selection.bucket = event.bucket;
  if (event.param >= 0) selection.param = event.param;
  if (event.step >= 0) selection.step = event.step;
  return selection;
}

/// Whether an event is about all that is selected; no event is where nothing but an event is.
inline bool is_about(const trace::Event& event, const Selection& selection) {
  const auto fits = [](const std::optional<int>& wanted, int value) { return !wanted || *wanted == value; };
  const bool any = selection.rank || selection.bucket || selection.param || selection.step;
  return any && fits(selection.rank, event.rank) && fits(selection.bucket, event.bucket) &&
         fits(selection.param, event.param) && fits(selection.step, event.step);
}

}  // namespace zero1::viz
