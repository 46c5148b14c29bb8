// Makes what the window shows, and keeps it up to date from frame to frame.
#pragma once

#include <string>

#include "viz/model/document.h"
#include "viz/model/live_run.h"

namespace zero1::viz {

/// A recording, read on a thread of its own. Throws InputError where it is none.
Document open_recording(const std::string& path);

/// Starts training. `config` is what resolve() has returned. Throws InputError.
Document start_run(const TrainConfig& config, LiveRunOptions options);

/// A layout to try out: of a SPEC file, or a preset where `path` is empty. Throws InputError.
Document explore(const std::string& path);

/// Fills in the names and bounds of an explored layout's parts, as a run's would be.
void name_parts(Document& document);

/// Takes over what has come since the last frame.
void update(Document& document);

/// Whether the next frame may differ though nobody touches the window.
bool moving(const Document& document);

}  // namespace zero1::viz
