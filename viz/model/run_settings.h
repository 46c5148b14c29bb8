// What a run was told that changes what its panels mean, from the settings in its trace.
#pragma once

#include "core/trace/recorder.h"

namespace zero1::viz {

/// A flag of RunInfo::config_json; `otherwise` where it does not tell.
bool run_flag(const trace::RunInfo& info, const char* field, bool otherwise);

/// With the distributed optimizer ranks own shards; without it every rank owns everything.
inline bool shards_optimizer(const trace::RunInfo& info) {
  return run_flag(info, "use_distributed_optimizer", true);
}

}  // namespace zero1::viz
