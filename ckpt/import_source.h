// Files that a checkpoint is made of, as import sees them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "core/data/name_rules.h"

namespace zero1::ckpt {

/// Reads stored elements, by index into params(); what is to be transposed is not transposed yet.
class ImportSource : public ElementSource {
 public:
  /// The parameters that are taken, in the natural order of their names.
  virtual const std::vector<MappedTensor>& params() const = 0;
  /// What the names' rules made of all tensors, those left out among them.
  virtual const std::vector<MappedTensor>& tensors() const = 0;
  /// The run's state and the layout (a `case`, by stored names) that export has recorded, as JSON.
  virtual std::optional<std::string> state_json() const = 0;
  virtual std::optional<std::string> layout_json() const = 0;
};

/// An HDF5 file as `zero1 ckpt gather` writes it. States that it lacks are zero.
std::unique_ptr<ImportSource> open_gathered(const std::string& path, const NameRules& names);

}  // namespace zero1::ckpt
