// Whole parameters from and to the host and .safetensors files.
#pragma once

#include <span>
#include <vector>

#include "core/data/name_rules.h"
#include "core/train/config.h"
#include "core/zero1/data_parallel.h"

namespace zero1 {

/// Sets a whole parameter from fp32 host values (rounded to its dtype). Every rank must set the same.
void set_param(DataParallel& data_parallel, int param, std::span<const float> values);

/// A whole parameter on the host, widened to fp32. Drain the gathers first.
std::vector<float> get_param(const DataParallel& data_parallel, int param);

/// Sets every parameter to its seeded initial value.
void init_weights(DataParallel& data_parallel, std::uint64_t seed);

/// Reads every parameter from config.init, whatever TensorFiles opens (rounded to the parameter's dtype), by
/// the names and in the orientation that config.init_names give the file's tensors. A tensor with a row for
/// each token of the vocabulary may come without the rows that pad it: these become copies of its last row,
/// as in Megatron's converters, since rows of zeros would win against logits that are all negative. Throws
/// InputError listing all names that are missing, all that are unexpected, and every shape that differs, with
/// the flags that would help; and naming an element that is beyond the parameter's dtype.
void load_weights(DataParallel& data_parallel, const TrainConfig& config);

/// What load_weights would throw before it reads a value, without a model: for the start of a run. Returns
/// what the rules make of the file's tensors.
std::vector<MappedTensor> check_weights(const std::vector<ParamSpec>& specs, const TrainConfig& config);

/// Writes every parameter in its own dtype, and model_json as metadata `zero1_model`. Drain the gathers
/// first; one rank of the group calls it.
void save_weights(const DataParallel& data_parallel, const TrainConfig& config);

/// A hash of all parameters' bits, widened to fp32. Drain the gathers first.
std::uint64_t hash_params(const DataParallel& data_parallel);

/// Throws Error on every rank when the ranks' parameters differ. All ranks call it, gathers drained.
void check_ranks_hold_same_params(DataParallel& data_parallel);

}  // namespace zero1
