// Kernel launches that nvcc and, under emulation, an ordinary C++ compiler both accept.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "core/device/cuda/cuda_check.h"

/// The block's dynamic shared memory as an array of `type`; the emulation defines its own.
#ifndef ZERO1_DYNAMIC_SHARED
#define ZERO1_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

namespace zero1::cuda {

/// Queues kernel<<<grid, block, shared_bytes, stream>>>(args...). Arguments convert to the kernel's
/// parameters.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  ZERO1_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...));
}

}  // namespace zero1::cuda
