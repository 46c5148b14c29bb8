// Turns CUDA's error codes into exceptions.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "core/base/error.h"

namespace zero1 {

/// A CUDA call failed. The message has the call, its place, CUDA's name and words for the error, and the GPU.
class CudaError : public Error {
 public:
  CudaError(cudaError_t code, const char* call, const char* file, int line);
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

}  // namespace zero1

#define ZERO1_CUDA_CHECK(call)                                              \
  do {                                                                      \
    const cudaError_t zero1_cuda_code = (call);                             \
    if (zero1_cuda_code != cudaSuccess) {                                   \
      throw ::zero1::CudaError(zero1_cuda_code, #call, __FILE__, __LINE__); \
    }                                                                       \
  } while (false)
