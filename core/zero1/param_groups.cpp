#include "core/zero1/param_groups.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>

#include "core/base/error.h"

namespace zero1 {

namespace {

bool matches(const ParamGroupRule& rule, const ParamSpec& spec) {
  return fnmatch(rule.pattern.c_str(), spec.name.c_str(), 0) == 0;
}

}  // namespace

std::vector<ParamMultipliers> resolve_param_groups(const std::vector<ParamSpec>& specs,
                                                   const std::vector<ParamGroupRule>& rules) {
  for (const ParamGroupRule& rule : rules) {
    const bool used =
        std::any_of(specs.begin(), specs.end(), [&](const ParamSpec& s) { return matches(rule, s); });
    if (!used) {
      throw InputError(fmt::format("parameter group '{}' matches no parameter; names look like '{}'",
                                   rule.pattern, specs.empty() ? "" : specs.back().name));
    }
  }
  std::vector<ParamMultipliers> result;
  for (const ParamSpec& spec : specs) {
    const auto rule =
        std::find_if(rules.begin(), rules.end(), [&](const ParamGroupRule& r) { return matches(r, spec); });
    if (rule != rules.end()) {
      result.push_back({rule->lr_mult, rule->weight_decay_mult});
    } else {
      result.push_back({1, spec.shape.size() >= 2 ? 1.0 : 0.0});
    }
  }
  return result;
}

}  // namespace zero1
