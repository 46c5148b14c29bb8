#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "runtime/errors.h"
#include "runtime/nccl_group.h"

namespace cuda_emulation {
namespace {

template <class Sum>
Sum combine(Sum a, Sum b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd: return a * b;
    // Like NCCL's, which ignore a NaN where the other operand is a number.
    case ncclMax: return static_cast<Sum>(std::fmax(a, b));
    case ncclMin: return static_cast<Sum>(std::fmin(a, b));
    case ncclSum:
    case ncclAvg: break;
  }
  return a + b;
}

template <class Stored, class Sum>
void reduce_as(void* receive, const std::vector<const char*>& inputs, std::size_t first, std::size_t count,
               ncclRedOp_t op) {
  const auto element = [&](std::size_t rank, std::size_t i) {
    return static_cast<Sum>(reinterpret_cast<const Stored*>(inputs[rank])[first + i]);
  };
  for (std::size_t i = 0; i < count; ++i) {
    Sum sum = element(0, i);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) sum = combine(sum, element(rank, i), op);
    if (op == ncclAvg) sum = sum / static_cast<Sum>(inputs.size());
    static_cast<Stored*>(receive)[i] = static_cast<Stored>(sum);
  }
}

}  // namespace

void reduce(void* receive, const std::vector<const char*>& inputs, std::size_t first, std::size_t count,
            ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclFloat32: return reduce_as<float, float>(receive, inputs, first, count, op);
    case ncclBfloat16: return reduce_as<__nv_bfloat16, float>(receive, inputs, first, count, op);
    case ncclFloat16: return reduce_as<__half, float>(receive, inputs, first, count, op);
    case ncclFloat64: return reduce_as<double, double>(receive, inputs, first, count, op);
    case ncclInt32: return reduce_as<std::int32_t, std::int64_t>(receive, inputs, first, count, op);
    case ncclUint32: return reduce_as<std::uint32_t, std::uint64_t>(receive, inputs, first, count, op);
    case ncclInt8:
    case ncclUint8:
    case ncclInt64:
    case ncclUint64: break;
  }
  fatal("NCCL: reductions of 8- and 64-bit integers are not emulated");
}

}  // namespace cuda_emulation
