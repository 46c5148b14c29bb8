// Matrix products of row-major matrices through cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "core/base/dtype.h"

namespace zero1::cuda {

/// C = alpha * op(A) · op(B) + beta * C for `count` triples of matrices at fixed distances. All are
/// row-major: `row` elements from one row to the next, `next` elements from one matrix to the next.
struct Product {
  struct Matrix {
    const void* data = nullptr;
    std::int64_t row = 0;
    std::int64_t next = 0;
    bool transpose = false;
  };
  Matrix a, b;
  void* c = nullptr;
  std::int64_t c_row = 0, c_next = 0;
  std::int64_t m = 0, n = 0, k = 0;  ///< op(A) is [m, k], op(B) is [k, n], C is [m, n]
  std::int64_t count = 1;
  DType in = DType::fp32, out = DType::fp32;  ///< of A and B; of C: fp32, or the dtype of A
  float alpha = 1, beta = 0;
};

/// A cuBLAS handle of one rank, created with the first product. Accumulation is in fp32 for every dtype.
/// Used by one host thread at a time.
class Blas {
 public:
  explicit Blas(bool tf32) : tf32_(tf32) {}
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas();

  /// Queued on `stream`, whose GPU must be current, always the same one. No size is zero.
  void run(cudaStream_t stream, const Product& product);

 private:
  void use(cudaStream_t stream);
  cublasComputeType_t compute_type(DType in) const;

  bool tf32_;
  cublasHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace zero1::cuda
