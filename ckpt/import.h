// Into a checkpoint: from safetensors, and from gathered HDF5 files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/import_layout.h"
#include "ckpt/write.h"

namespace zero1::ckpt {

struct ImportOptions {
  NameRules names = {};
  ImportLayout layout = {};
  bool skip_other_dtypes = false;  ///< leave out tensors that are no floating-point numbers
};

/// The inverse of gather_safetensors and gather_hdf5: one .safetensors file, the files that a
/// .safetensors.index.json names, or one gathered .h5 (.hdf5) file, opened and understood. Without other
/// options it becomes the checkpoint that it was exported from, on the same ranks. Any file of weights will
/// do: without a recorded or given layout, parameters stand in the natural order of their names. States that
/// it lacks are zero.
class ImportPlan {
 public:
  /// Reads no values. Throws InputError naming tensors of unexpected types or shapes, tensors that an index
  /// and its files do not agree on, files that lie elsewhere than beside the index, and as map_tensors and
  /// choose_layout do.
  ImportPlan(const std::string& path, const ImportOptions& options);

  const LayoutCase& layout_case() const { return layout_case_; }
  const RunState& state() const { return state_; }
  /// What becomes of each tensor.
  const std::vector<MappedTensor>& tensors() const { return source_->tensors(); }
  /// Tensors left out for their dtypes, with these.
  const std::vector<std::string>& skipped() const { return skipped_; }

  /// Writes the checkpoint `folder`, streaming; a matrix that is transposed is held in memory whole, one for
  /// each worker. Throws as write_checkpoint does.
  void write(const std::string& folder, const WriteOptions& options) const;

 private:
  std::unique_ptr<ImportSource> source_;
  std::vector<std::string> skipped_;
  RunState state_;
  LayoutCase layout_case_;
  std::vector<int> params_;  ///< which of the source's each parameter is
};

}  // namespace zero1::ckpt
