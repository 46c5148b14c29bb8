#include "core/device/cuda/blas.h"

#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/device/cuda/cublas_library.h"
#include "core/device/op_checks.h"

namespace zero1::cuda {

namespace {

void check_blas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(std::string("cuBLAS: ") + call + " failed with status " +
              std::to_string(static_cast<int>(status)) +
              (status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ALLOC_FAILED
                   ? " (most likely the GPU's memory is full)"
                   : ""));
}

cudaDataType cuda_type(DType dtype) {
  if (dtype == DType::bf16) return CUDA_R_16BF;
  if (dtype == DType::fp16) return CUDA_R_16F;
  return CUDA_R_32F;  // Ops::matmul takes nothing else
}

int blas_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    op_checks::reject("matmul", "a size of " + std::to_string(size) + " is more than cuBLAS takes");
  }
  return static_cast<int>(size);
}

cublasOperation_t operation(const Product::Matrix& matrix) {
  return matrix.transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

Blas::~Blas() {
  if (handle_ != nullptr) cublas_library().destroy(handle_);
}

void Blas::use(cudaStream_t stream) {
  if (handle_ == nullptr) {
    check_blas(cublas_library().create(&handle_), "cublasCreate");
    // By default, partial sums of bf16 and fp16 products may be added in 16 bits.
    const auto mode =
        static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    check_blas(cublas_library().set_math_mode(handle_, mode), "cublasSetMathMode");
  }
  if (stream == stream_) return;
  check_blas(cublas_library().set_stream(handle_, stream), "cublasSetStream");
  stream_ = stream;
}

cublasComputeType_t Blas::compute_type(DType in) const {
  return tf32_ && in == DType::fp32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// cuBLAS is column-major: to it, our matrices are transposed. So it computes Cᵀ = op(B)ᵀ · op(A)ᵀ, with
/// the operands swapped and everything else as it is.
void Blas::run(cudaStream_t stream, const Product& p) {
  use(stream);
  const cudaDataType in = cuda_type(p.in), out = cuda_type(p.out);
  const int m = blas_int(p.m), n = blas_int(p.n), k = blas_int(p.k);
  const int a_row = blas_int(p.a.row), b_row = blas_int(p.b.row), c_row = blas_int(p.c_row);
  const cublasComputeType_t compute = compute_type(p.in);
  if (p.count == 1) {
    check_blas(
        cublas_library().gemm(handle_, operation(p.b), operation(p.a), n, m, k, &p.alpha, p.b.data, in, b_row,
                              p.a.data, in, a_row, &p.beta, p.c, out, c_row, compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
    return;
  }
  check_blas(cublas_library().gemm_strided_batched(handle_, operation(p.b), operation(p.a), n, m, k, &p.alpha,
                                                   p.b.data, in, b_row, p.b.next, p.a.data, in, a_row,
                                                   p.a.next, &p.beta, p.c, out, c_row, p.c_next,
                                                   blas_int(p.count), compute, CUBLAS_GEMM_DEFAULT),
             "cublasGemmStridedBatchedEx");
}

}  // namespace zero1::cuda
