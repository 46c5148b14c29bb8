// The file of --metrics.
#pragma once

#include <fstream>
#include <string>

#include "core/train/metrics.h"

namespace zero1::app {

/// A line per step: JSON, or cells under a header where the path ends in .csv. What the file held before is
/// replaced when the first line comes: a run that cannot begin leaves it as it was.
class MetricsFile {
 public:
  /// Throws InputError where `path` cannot be written; an empty one writes nothing.
  explicit MetricsFile(std::string path);
  void write(const StepMetrics& step);
  /// Throws Error where a line could not be written.
  void finish();

 private:
  void open(std::ios::openmode mode);

  std::string path_;
  bool csv_;
  std::ofstream out_;
  bool begun_ = false;
};

}  // namespace zero1::app
