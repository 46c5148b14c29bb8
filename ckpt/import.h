// Into a checkpoint: from safetensors.
#pragma once

#include <string>
#include <vector>

#include "ckpt/write.h"

namespace zero1::ckpt {

/// The inverse of gather_safetensors: writes the checkpoint `folder` with the given layout options from one
/// .safetensors file, or from the files that a .safetensors.index.json names. Any file of weights will do:
/// states that it lacks are zero. Throws InputError naming tensors of unexpected types or shapes, tensors
/// that the index and its files do not agree on, and files that lie elsewhere than beside the index. Tensors
/// that are no floating-point numbers are refused, or left out with `skip_other_dtypes`; these are returned.
std::vector<std::string> import_safetensors(const std::string& path, const std::string& folder,
                                            const LayoutOptions& layout, DType param_dtype,
                                            const WriteOptions& options, bool skip_other_dtypes = false);

}  // namespace zero1::ckpt
