// Matrices whose shape does not tell whether they are stored [out, in] or [in, out], and text about tensors.
#pragma once

#include <string>
#include <vector>

#include "core/data/name_rules.h"

namespace zero1 {

/// Stored names of square matrices that may have to be transposed and that neither --transpose nor
/// --no-transpose names. `turned` says of each tensor whether it is or must be transposed; where none is,
/// nothing is open. A square matrix goes by the others that are called as it is (h.0.attn.c_proj.weight by
/// h.0.mlp.c_proj.weight) where all of these stay as they are.
std::vector<std::string> undecided_squares(const std::vector<MappedTensor>& tensors,
                                           const std::vector<bool>& turned);

/// A regular expression that matches these names, whatever numbers they have between dots.
std::string pattern_for(const std::vector<std::string>& names);

/// The first few of them, and how many more.
std::string shortened(const std::vector<std::string>& names);

}  // namespace zero1
