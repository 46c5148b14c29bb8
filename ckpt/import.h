// Into a checkpoint: from safetensors, and from gathered HDF5 files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/import_layout.h"
#include "ckpt/state_rules.h"
#include "ckpt/write.h"

namespace zero1::ckpt {

struct ImportOptions {
  NameRules names = {};
  ImportLayout layout = {};
  OptimizerFlags optimizer = {};
  bool skip_other_dtypes = false;  ///< leave out tensors that are no floating-point numbers
};

/// The inverse of gather_safetensors and gather_hdf5: safetensors as TensorFiles opens them, or one gathered
/// .h5 (.hdf5) file, opened and understood. Without other options it becomes the checkpoint that it was
/// exported from, on the same ranks. Any file of weights will do: without a recorded or given layout,
/// parameters stand in the natural order of their names; without moments and a step count of AdamW, AdamW
/// starts afresh.
class ImportPlan {
 public:
  /// Reads no values. Throws InputError naming tensors of unexpected types or shapes, and as TensorFiles,
  /// map_tensors, choose_layout, refuse_orphaned_states and decide_optimizer_state do.
  ImportPlan(const std::string& path, const ImportOptions& options);

  const LayoutCase& layout_case() const { return layout_case_; }
  const RunState& state() const { return state_; }
  /// What becomes of each tensor.
  const std::vector<MappedTensor>& tensors() const { return source_->tensors(); }
  /// Tensors left out for their dtypes, with these.
  const std::vector<std::string>& skipped() const { return skipped_; }
  /// What becomes of AdamW's state, and what else is to be told, a line each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Writes the checkpoint `folder`, streaming; a matrix that is transposed is held in memory whole, one for
  /// each worker. Throws as write_checkpoint and StateCheck do.
  void write(const std::string& folder, const WriteOptions& options) const;

 private:
  void decide_optimizer(const OptimizerFlags& flags, const std::string& path);

  std::string path_;
  std::unique_ptr<ImportSource> source_;
  std::vector<std::string> skipped_;
  std::vector<std::string> notes_;
  RunState state_;
  bool moments_ = false;  ///< the source's are taken; else they are zero
  LayoutCase layout_case_;
  std::vector<int> params_;  ///< which of the source's each parameter is
};

}  // namespace zero1::ckpt
