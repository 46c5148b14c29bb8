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

}  // namespace zero1::viz
