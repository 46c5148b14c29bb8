// Another source's elements under other indices, matrices transposed where asked.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ckpt/checkpoint.h"
#include "core/data/name_rules.h"

namespace zero1::ckpt {

class MappedSource : public ElementSource {
 public:
  struct Param {
    int source = 0;                                   ///< its index there
    std::optional<std::vector<std::int64_t>> turned;  ///< its shape there, when it is to be transposed
  };

  /// Of `source`, which outlives it. A matrix that is transposed is read whole; the last `matrices_held` stay
  /// in memory.
  MappedSource(const ElementSource& source, std::vector<Param> params, int matrices_held = 1);
  ~MappedSource() override;

  void read(int param, State state, Range param_range, float* out) const override;

 private:
  struct Held;
  const ElementSource& source_;
  std::vector<Param> params_;
  std::unique_ptr<Held> held_;
};

/// The source's parameter number `index`, as `tensor` is taken.
MappedSource::Param mapped_param(int index, const MappedTensor& tensor);

/// Names and shapes alone.
std::vector<NamedShape> named_shapes(const std::vector<ParamSpec>& specs);

/// The same parameters in the optimizer's groups under their new names, without those that are left out.
void rename_groups(std::vector<ParamGroup>& groups, const std::vector<MappedTensor>& tensors);

}  // namespace zero1::ckpt
