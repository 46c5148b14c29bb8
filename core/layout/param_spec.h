// What the layout needs to know of a parameter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/dtype.h"

namespace zero1 {

struct ParamSpec {
  std::string name;
  std::vector<std::int64_t> shape;  ///< empty: a scalar, one element
  DType dtype = DType::fp32;
  bool shared_embedding = false;  ///< gets a bucket of its own (Megatron: `param.shared_embedding`)
  bool expert_parallel = false;   ///< reduced over the expert data-parallel group (`not param.allreduce`)

  /// The product of the shape; 0 if any size is. Throws InputError naming the parameter and the size on a
  /// negative one, and naming the shape on overflow.
  std::int64_t numel() const;

  friend bool operator==(const ParamSpec&, const ParamSpec&) = default;
};

}  // namespace zero1
