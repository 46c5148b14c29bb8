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
  /// Whether the files have this state of a parameter; what they lack reads as zeros.
  virtual bool has(int param, State state) const = 0;
  virtual DType dtype(int param) const = 0;  ///< in which its values are stored
  /// The run's state and the layout (a `case`, by stored names) that export has recorded, as JSON.
  virtual std::optional<std::string> state_json() const = 0;
  virtual std::optional<std::string> layout_json() const = 0;
  /// Without a state: what export or --save-weights has recorded of the model, as JSON.
  virtual std::optional<std::string> model_json() const = 0;
};

/// An HDF5 file as `zero1 ckpt gather` writes it. States that it lacks are zero.
std::unique_ptr<ImportSource> open_gathered(const std::string& path, const NameRules& names);

}  // namespace zero1::ckpt
