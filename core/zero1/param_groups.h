// Which learning rate and weight decay a parameter gets. Megatron: `_get_param_groups` in
// optimizer/__init__.py.
#pragma once

#include <vector>

#include "core/layout/param_spec.h"
#include "core/zero1/options.h"

namespace zero1 {

struct ParamMultipliers {
  double lr_mult = 1;
  double weight_decay_mult = 1;
};

/// By parameter index. The first rule whose pattern matches the name decides; where none does, weight
/// decay applies to parameters of two or more dimensions only. Throws InputError when a rule's pattern
/// matches no parameter.
std::vector<ParamMultipliers> resolve_param_groups(const std::vector<ParamSpec>& specs,
                                                   const std::vector<ParamGroupRule>& rules);

}  // namespace zero1
