#include "apps/zero1/name_flags.h"

namespace zero1::app {

const char* const pattern_help =
    R"(A PATTERN is a stored name, or else a regular expression (ECMAScript) that matches a whole stored name:
'h\.0\..*' rather than 'h.0.'. --rename OLD=NEW: OLD is a PATTERN (= is written \= in it); \1 to \9 in NEW stand
for its groups, \0 for the whole name. All of these may be repeated; of several --rename the first that matches
decides. Optimizer states follow their parameters. A matrix that is transposed is held in memory whole.)";

void add_name_flags(CLI::App& command, NameRules& rules, const std::string& group) {
  const auto add = [&](const char* flag, std::vector<std::string>& values, const char* type,
                       const char* description) {
    command.add_option(flag, values, description)->group(group)->type_name(type)->expected(1)->take_all();
  };
  add("--rename", rules.renames, "OLD=NEW",
      "Another name for a tensor, or by a regular expression with groups for many: 'transformer\\.(.*)=\\1'");
  add("--exclude", rules.excludes, "PATTERN", "Tensors to leave out");
  add("--transpose", rules.transposes, "PATTERN",
      "Matrices to transpose, such as transformers' Conv1D: '.*\\.(c_attn|c_fc|c_proj)\\.weight'");
  add("--no-transpose", rules.as_stored, "PATTERN",
      "Matrices to leave as they are: exceptions to --transpose, and square ones, whose shape does not tell");
}

}  // namespace zero1::app
