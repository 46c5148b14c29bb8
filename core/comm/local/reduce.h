// The arithmetic of reductions, on plain memory.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/comm/communicator.h"

namespace zero1::local {

/// Every output = the reduction of the inputs, element by element, in the order of `inputs`; all hold
/// `numel` elements of `dtype`. Accumulates in fp32 (fp64 for fp64) and rounds once; `average` divides by
/// the number of inputs before that. A NaN in any input gives NaN, also through max. An output may be
/// exactly one of the inputs.
void reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
            std::int64_t numel);

}  // namespace zero1::local
