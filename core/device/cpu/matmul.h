// Matrix products on oneDNN. matmul.cpp alone knows of it.
#pragma once

#include <cstdint>
#include <memory>

#include "core/device/cpu/workers.h"
#include "core/device/ops.h"

namespace zero1::cpu {

/// Sets how many threads oneDNN and OpenMP use when called from this thread.
void use_threads(int threads);

/// C = alpha * op(A) · op(B) + beta * C on row-major fp32 matrices with row strides, on `threads` threads
/// (1 inside a parallel region).
void sgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
           const float* a, std::int64_t row_stride_a, const float* b, std::int64_t row_stride_b, float beta,
           float* c, std::int64_t row_stride_c);

/// Runs Ops::matmul and keeps what oneDNN has compiled for the shapes seen. Thread-safe.
class MatmulEngine {
 public:
  MatmulEngine();
  ~MatmulEngine();

  /// Arguments are checked already.
  void run(Workers& workers, const MatmulArgs& args);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1::cpu
