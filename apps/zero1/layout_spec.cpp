#include "apps/zero1/layout_spec.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/trace/format.h"
#include "core/trace/reader.h"

namespace zero1::app {
namespace {

bool is_recording(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;
  auto begin = trace::format::file_magic;
  begin.fill(0);
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  return begin == trace::format::file_magic;
}

}  // namespace

std::string layout_spec_text(const std::string& path) {
  if (!is_recording(path)) return read_file(path);
  const std::string layout = trace::Reader(path).info().layout_json;
  if (layout != "null") return layout;
  throw InputError(fmt::format("{}: this recording does not say what its layout was", path));
}

}  // namespace zero1::app
