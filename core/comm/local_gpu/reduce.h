// The arithmetic of reductions on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/comm/communicator.h"

namespace zero1::local_gpu {

/// Ranks that one launch can reduce: their pointers travel as a kernel argument.
inline constexpr int max_ranks = 64;

/// Queues `out` = the reduction of the inputs on `stream`, a stream of the current GPU; all hold `numel`
/// elements of `dtype` that this GPU can read. The same arithmetic as zero1::local::reduce, and the same
/// bits: in the order of `inputs`, in fp32 (fp64 for fp64), rounded once; `average` divides by the number
/// of inputs before that; a NaN in any input gives NaN, also through max. `out` may be exactly an input.
void reduce(cudaStream_t stream, DType dtype, ReduceOp op, std::span<const void* const> inputs, void* out,
            std::int64_t numel);

}  // namespace zero1::local_gpu
