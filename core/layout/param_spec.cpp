#include "core/layout/param_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

namespace zero1 {

std::int64_t ParamSpec::numel() const {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 0) continue;
    throw InputError(
        fmt::format("shape[{}]: expected a size of 0 or more, found {} (parameter '{}')", i, shape[i], name));
  }
  // A tensor without elements is one, however large its other sizes are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(product, size, &product)) {
      throw InputError(fmt::format("shape: the product [{}] exceeds 2^63 - 1 elements (parameter '{}')",
                                   fmt::join(shape, ", "), name));
    }
  }
  return product;
}

}  // namespace zero1
