// The event file of --tensorboard-dir.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "core/train/metrics.h"

namespace zero1::app {

/// Scalars per step under Megatron's names where it has them: "lm loss", "learning-rate", "grad-norm",
/// "loss-scale", "iteration-time" (seconds), "lm loss validation", "lm loss validation ppl". Each run writes
/// a file of its own, beside those of earlier runs; it is made when the first step comes.
class TensorboardFile {
 public:
  /// Makes the folder. Throws InputError where that or writing there is not possible; an empty one writes
  /// nothing.
  explicit TensorboardFile(std::string folder);
  void write(const StepMetrics& step);
  /// Throws Error where an event could not be written.
  void finish();

 private:
  void open();

  std::string folder_;
  std::ofstream out_;
};

/// The checksum of the file's records: CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace zero1::app
