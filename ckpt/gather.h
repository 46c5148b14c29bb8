// Out of a checkpoint: a single HDF5 file in model space, or safetensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "core/data/name_rules.h"

namespace zero1::ckpt {

struct GatherOptions {
  bool model_only = false;     ///< parameters, without the optimizer's states
  std::optional<DType> dtype;  ///< of model_only's parameters in safetensors; without: each one's own
  std::int64_t mem_limit_bytes = 256LL << 20;
  std::optional<std::int64_t> max_shard_bytes;  ///< of tensors in one safetensors file; without: no limit
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> on_progress;
  NameRules names = {};  ///< what the file calls the parameters, which it lacks, and which it has transposed
};

/// One HDF5 file with /model/NAME/{param,exp_avg,exp_avg_sq} as ordinary float32 datasets in full shape,
/// /state, and /layout; without moments the attribute `step` and /model_config in place of /state. Appears
/// whole or not at all. Throws InputError when `path` is there already. Returns what `names` did, a line
/// each.
std::vector<std::string> gather_hdf5(const Checkpoint& checkpoint, const std::string& path,
                                     const GatherOptions& options);

struct GatheredFiles {
  std::vector<std::string> paths;  ///< the index last
  std::vector<std::string> notes;  ///< what `names` did, a line each
};

/// NAME, and NAME.exp_avg, NAME.exp_avg_sq in fp32 unless model_only, as `path`, which ends in .safetensors.
/// Parameters are the fp32 main parameters, and with model_only rounded as `dtype` says. The metadata hold
/// /state as `zero1_state` (with model_only, the step as `zero1_step` and the model's configuration as
/// `zero1_model`) and the checkpoint's layout as `zero1_layout`, so that import gives the same checkpoint.
///
/// What exceeds max_shard_bytes becomes several files, cut between tensors as Hugging Face's libraries do:
/// for X.safetensors the files X-00001-of-00003.safetensors … and X.safetensors.index.json, which says where
/// each tensor lies and comes last. Files appear whole; on failure none stays. Throws InputError when one of
/// them is there already, when `dtype` would round parameters beside moments, and naming the element that is
/// beyond the dtype.
GatheredFiles gather_safetensors(const Checkpoint& checkpoint, const std::string& path,
                                 const GatherOptions& options);

}  // namespace zero1::ckpt
