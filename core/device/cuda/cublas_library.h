// cuBLAS, loaded when the first product needs it. Linked, it would cost every command some 200 MiB of memory,
// also those that never see a GPU.
#pragma once

#include <cublas_v2.h>

namespace zero1::cuda {

/// The functions that we call, under their own names.
struct CublasLibrary {
  cublasStatus_t (*create)(cublasHandle_t*);
  cublasStatus_t (*destroy)(cublasHandle_t);
  cublasStatus_t (*set_math_mode)(cublasHandle_t, cublasMath_t);
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t);
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                         const void*, cudaDataType, int, const void*, cudaDataType, int, const void*, void*,
                         cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
  cublasStatus_t (*gemm_strided_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                         const void*, const void*, cudaDataType, int, long long int,
                                         const void*, cudaDataType, int, long long int, const void*, void*,
                                         cudaDataType, int, long long int, int, cublasComputeType_t,
                                         cublasGemmAlgo_t);
};

/// Loads it at the first call; it stays. Throws InputError that says what is missing. Any thread.
const CublasLibrary& cublas_library();

}  // namespace zero1::cuda
