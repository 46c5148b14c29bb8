// Model parameters from and to .safetensors files.
#pragma once

#include <vector>

#include "core/train/config.h"
#include "core/zero1/data_parallel.h"

namespace zero1 {

/// Sets every parameter to its seeded initial value.
void init_weights(DataParallel& data_parallel, std::uint64_t seed);

/// Reads every parameter from config.init (fp32, bf16 or fp16; rounded to the parameter's dtype). A tensor
/// with a row for each token of the vocabulary may come without the rows that pad it: these become copies of
/// its last row, as in Megatron's converters, since rows of zeros would win against logits that are all
/// negative. Throws InputError listing all names that are missing, all that are unexpected, and every shape
/// that differs.
void load_weights(DataParallel& data_parallel, const TrainConfig& config);

/// What load_weights would throw before it reads a value, without a model: for the start of a run.
void check_weights(const std::vector<ParamSpec>& specs, const TrainConfig& config);

/// Writes every parameter in its own dtype, and model_json as metadata `zero1_model`. Drain the gathers
/// first; one rank of the group calls it.
void save_weights(const DataParallel& data_parallel, const TrainConfig& config);

/// A hash of all parameters' bits, widened to fp32. Drain the gathers first.
std::uint64_t hash_params(const DataParallel& data_parallel);

/// Throws Error on every rank when the ranks' parameters differ. All ranks call it, gathers drained.
void check_ranks_hold_same_params(DataParallel& data_parallel);

}  // namespace zero1
