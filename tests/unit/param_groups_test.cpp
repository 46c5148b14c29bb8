// Which multipliers a parameter gets.
#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/zero1/param_groups.h"

using namespace zero1;

namespace {
const std::vector<ParamSpec> specs{
    {"wte.weight", {5, 3}}, {"h.0.ln_1.weight", {3}}, {"h.0.mlp.c_fc.weight", {7, 3}}, {"scale", {}}};
}

TEST_CASE("weight decay applies to two or more dimensions only") {
  const auto groups = resolve_param_groups(specs, {});
  const double expected[] = {1, 0, 1, 0};
  for (std::size_t p = 0; p < specs.size(); ++p) {
    CHECK(groups[p].lr_mult == 1);
    CHECK(groups[p].weight_decay_mult == expected[p]);
  }
}

TEST_CASE("the first rule that matches decides") {
  const auto groups = resolve_param_groups(specs, {{"h.*.mlp.*", 0.5, 0.25}, {"h.*", 2, 3}});
  CHECK(groups[1].lr_mult == 2);
  CHECK(groups[1].weight_decay_mult == 3);
  CHECK(groups[2].lr_mult == 0.5);
  CHECK(groups[2].weight_decay_mult == 0.25);
  CHECK(groups[0].lr_mult == 1);
}

TEST_CASE("a rule that matches nothing is an error that shows a name") {
  CHECK_THROWS_WITH_AS(resolve_param_groups(specs, {{"mlp*", 1, 1}}),
                       "parameter group 'mlp*' matches no parameter; names look like 'scale'", InputError);
}
