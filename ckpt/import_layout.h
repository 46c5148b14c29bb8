// Which layout an imported checkpoint gets: order of parameters, their marks and dtypes, and the options.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/import_source.h"

namespace zero1::ckpt {

struct ImportLayout {
  std::optional<LayoutCase> given;  ///< wins over what the file has recorded
  std::string given_source;         ///< for messages
  bool ignore_recorded = false;     ///< parameters in the natural order of their names, no marks
  std::optional<DType> dtype;       ///< of all parameters; without: as the layout says, else float32
  std::optional<int> dp_size;       ///< needed where no layout says it
  std::function<void(LayoutOptions&)> adjust = {};  ///< what other flags say
};

struct ChosenLayout {
  LayoutCase layout_case;
  std::vector<int> params;  ///< which of the source's each parameter is
};

/// Throws InputError that lists what the layout and the file do not have in common, and the flags that help.
/// `path` is the file's.
ChosenLayout choose_layout(const ImportSource& source, const ImportLayout& wanted, const std::string& path);

}  // namespace zero1::ckpt
