// Values that a narrower type cannot hold. Rounding makes infinities of them, so whoever narrows asks first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/dtype.h"

namespace zero1 {

/// Whether a finite value becomes an infinity when it is rounded to `dtype` (or, F64's, to float32).
bool overflows(float value, DType dtype);
bool overflows_fp32(double value);

/// The index of the first of `count` values that overflows.
std::optional<std::int64_t> first_overflow(const float* values, std::int64_t count, DType dtype);

/// "is 123456, beyond float16, whose largest number is 65504".
std::string describe_overflow(double value, DType dtype);

}  // namespace zero1
