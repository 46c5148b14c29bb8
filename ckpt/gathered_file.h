// Reads the HDF5 file that `zero1 ckpt gather` writes, without an HDF5 library (hdf5_walk.h says why).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/format.h"
#include "core/data/input_file.h"

namespace zero1::ckpt {

class GatheredFile {
 public:
  struct Param {
    std::string name;
    std::vector<std::int64_t> shape;
    std::array<std::optional<std::int64_t>, state_count> offset_bytes;  ///< in the file; none: not there

    bool has(State state) const { return offset_bytes[static_cast<std::size_t>(state)].has_value(); }
  };

  /// Finds every dataset before any is believed: where it lies, its type and shape. Throws InputError naming
  /// the file and the dataset on another kind of file (the parts of a checkpoint among them), on damage, and
  /// on what the file does not hold as gather writes it: contiguous little-endian float32.
  explicit GatheredFile(const std::string& path);

  const std::vector<Param>& params() const { return params_; }  ///< in HDF5's order
  const std::optional<std::string>& state_json() const { return state_json_; }
  const std::optional<std::string>& layout_json() const { return layout_json_; }
  const std::optional<std::string>& model_json() const { return model_json_; }

  /// Reads just these elements, from any number of threads at once. The state is there.
  void read(int param, State state, Range range, float* out) const;

 private:
  class Parser;

  InputFile file_;
  std::vector<Param> params_;
  std::optional<std::string> state_json_, layout_json_, model_json_;
};

}  // namespace zero1::ckpt
