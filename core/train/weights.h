// Model parameters from and to .safetensors files.
#pragma once

#include <string>

#include "core/data/name_rules.h"
#include "core/zero1/data_parallel.h"

namespace zero1 {

/// Sets every parameter to its seeded initial value.
void init_weights(DataParallel& data_parallel, std::uint64_t seed);

/// Reads every parameter from `path`, whatever TensorFiles opens (rounded to the parameter's dtype), by the
/// names and in the orientation that `rules` give the file's tensors. Throws InputError listing all names
/// that are missing, all that are unexpected, and every shape that differs, with the flags that would help;
/// and naming an element that is beyond the parameter's dtype.
void load_weights(DataParallel& data_parallel, const std::string& path, const NameRules& rules = {});

/// What load_weights would throw before it reads a value, without a model: for the start of a run. Returns
/// what the rules make of the file's tensors.
std::vector<MappedTensor> check_weights(const std::vector<ParamSpec>& specs, const std::string& path,
                                        const NameRules& rules = {});

/// Writes every parameter in its own dtype. Drain the gathers first; one rank of the group calls it.
void save_weights(const DataParallel& data_parallel, const std::string& path);

/// A hash of all parameters' bits, widened to fp32. Drain the gathers first.
std::uint64_t hash_params(const DataParallel& data_parallel);

/// Throws Error on every rank when the ranks' parameters differ. All ranks call it, gathers drained.
void check_ranks_hold_same_params(DataParallel& data_parallel);

}  // namespace zero1
