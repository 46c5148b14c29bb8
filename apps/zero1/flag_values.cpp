#include "apps/zero1/flag_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/units.h"

namespace zero1::app {

std::int64_t parse_bucket_size(const char* flag, const std::string& text) {
  try {
    const std::int64_t elems = parse_count(text);
    if (elems > 0) return elems;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", flag, error.what()));
  }
  throw InputError(fmt::format("{}: expected 1 or more elements, found 0", flag));
}

void apply_bucket_size(const std::string& text, std::optional<std::int64_t>& elems) {
  if (text == "none") {
    elems.reset();
  } else if (!text.empty()) {
    elems = parse_bucket_size("--bucket-size", text);
  }
}

bool has_expert_params(const std::vector<ParamSpec>& specs) {
  return std::any_of(specs.begin(), specs.end(), [](const ParamSpec& spec) { return spec.expert_parallel; });
}

std::string not_an_svg(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  for (const char* other : {".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf"}) {
    if (ending == other) return fmt::format("'{}': what is written is SVG; end the name with .svg", path);
  }
  return {};
}

}  // namespace zero1::app
