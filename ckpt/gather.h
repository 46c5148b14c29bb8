// Out of a checkpoint and into one: a single HDF5 file in model space, safetensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ckpt/write.h"

namespace zero1::ckpt {

struct GatherOptions {
  bool model_only = false;     ///< parameters, without the optimizer's states
  std::optional<DType> dtype;  ///< of parameters in safetensors; without: each parameter's own
  std::int64_t mem_limit_bytes = 256LL << 20;
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> on_progress;
};

/// One HDF5 file with /model/NAME/{param,exp_avg,exp_avg_sq} as ordinary float32 datasets in full shape,
/// and /state. Appears whole or not at all.
void gather_hdf5(const Checkpoint& checkpoint, const std::string& path, const GatherOptions& options);

/// One .safetensors file: NAME, and NAME.exp_avg, NAME.exp_avg_sq in fp32 unless model_only. The metadata
/// hold /state, so that the file can be imported again. Parameters are fp32 main parameters when `dtype`
/// says float32, else rounded.
void gather_safetensors(const Checkpoint& checkpoint, const std::string& path, const GatherOptions& options);

/// The inverse: writes the checkpoint `folder` with the given layout options from such a file, or from any
/// file of weights: states that it lacks are zero. Throws InputError naming tensors of unexpected names or
/// shapes.
void import_safetensors(const std::string& path, const std::string& folder, const LayoutOptions& layout,
                        DType param_dtype, const WriteOptions& options);

}  // namespace zero1::ckpt
