// Whether a launcher of many processes (mpirun, srun, torchrun) has started this one.
#pragma once

#include <optional>
#include <string>

namespace zero1::app {

struct Launch {
  std::string launcher;  ///< "Open MPI's mpirun"
  std::string variable;  ///< of the environment, that says so
  long rank = 0;
  long size = 1;  ///< above 1

  /// What it means for a run, whose ranks are threads: "this is process 1 of 3 …".
  std::string text() const;
};

/// From the environment; nothing for a process that was started alone.
std::optional<Launch> find_launch();

}  // namespace zero1::app
