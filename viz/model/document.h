// What the window shows: a live run, a recording, or a layout that is being explored.
#pragma once

#include <memory>
#include <string>

#include "core/layout/buffer_layout.h"
#include "core/trace/recorder.h"
#include "viz/model/change.h"
#include "viz/model/selection.h"

namespace zero1::viz {

class EventIndex;   // viz/model/event_index.h
class LiveRun;      // viz/model/live_run.h
class Exploration;  // viz/model/exploration.h

/// One thing that is looked at. Belongs to the thread that draws; what comes from other threads is taken
/// over by its `events` and `live` between two frames.
struct Document {
  std::string title;                         ///< "run", or the recording's path
  trace::RunInfo info;                       ///< names of ranks, buckets, parameters and layers
  std::shared_ptr<const Layout> layout;      ///< null where a recording does not tell it
  std::shared_ptr<EventIndex> events;        ///< null while exploring
  std::shared_ptr<LiveRun> live;             ///< null unless a run is under way, or has just ended
  std::shared_ptr<Exploration> exploration;  ///< null unless a layout is tried out
  std::string error;                         ///< shown in the window: why there is nothing, or not all
  Selection selection;
  Moment moment;
  Change change;  ///< of the last step, of the run or of the view; panels mark it
};

}  // namespace zero1::viz
