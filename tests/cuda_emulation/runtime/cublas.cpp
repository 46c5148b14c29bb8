// Matrix products in stream order, accumulated in fp32.
#include <cublas_v2.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/errors.h"
#include "runtime/machine.h"

using namespace cuda_emulation;

struct cublasContext {
  int device;
  cudaStream_t stream;
  cublasMath_t math;
};

namespace {

struct Operand {
  const void* data;
  cudaDataType type;
  int leading;
  long long stride;
  bool transposed;
};

struct Product {
  int m, n, k;
  float alpha, beta;
  Operand a, b;
  Operand c;  ///< read and written, never transposed
  int batches;
  bool tf32;
};

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}

float load(const Operand& x, std::size_t i) {
  switch (x.type) {
    case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16*>(x.data)[i]);
    case CUDA_R_16F: return __half2float(static_cast<const __half*>(x.data)[i]);
    case CUDA_R_32F: break;
  }
  return static_cast<const float*>(x.data)[i];
}

void store(const Operand& x, std::size_t i, float value) {
  void* const data = const_cast<void*>(x.data);
  switch (x.type) {
    case CUDA_R_16BF: static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value); return;
    case CUDA_R_16F: static_cast<__half*>(data)[i] = __float2half(value); return;
    case CUDA_R_32F: static_cast<float*>(data)[i] = value; return;
  }
}

/// TF32 keeps ten bits of the mantissa.
float rounded_to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7F800000u) == 0x7F800000u) return value;
  return std::bit_cast<float>((bits + 0x0FFFu + ((bits >> 13) & 1u)) & ~0x1FFFu);
}

std::size_t at(const Operand& x, int batch, int row, int column) {
  if (x.transposed) std::swap(row, column);
  return static_cast<std::size_t>(batch) * static_cast<std::size_t>(x.stride) +
         static_cast<std::size_t>(row) +
         static_cast<std::size_t>(column) * static_cast<std::size_t>(x.leading);
}

/// op(X) of one batch as fp32, column-major and dense.
std::vector<float> dense(const Operand& x, int batch, int rows, int columns, bool tf32) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (int column = 0; column < columns; ++column) {
    for (int row = 0; row < rows; ++row) {
      const float value = load(x, at(x, batch, row, column));
      values.push_back(tf32 ? rounded_to_tf32(value) : value);
    }
  }
  return values;
}

void multiply(const Product& p, int batch) {
  const std::vector<float> a = dense(p.a, batch, p.m, p.k, p.tf32);
  const std::vector<float> b = dense(p.b, batch, p.k, p.n, p.tf32);
  const auto m = static_cast<std::size_t>(p.m);
  const auto k = static_cast<std::size_t>(p.k);
  std::vector<float> sums(m);
  for (int column = 0; column < p.n; ++column) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::size_t x = 0; x < k; ++x) {
      const float factor = b[static_cast<std::size_t>(column) * k + x];
      for (std::size_t row = 0; row < m; ++row) sums[row] += a[x * m + row] * factor;
    }
    for (int row = 0; row < p.m; ++row) {
      const std::size_t i = at(p.c, batch, row, column);
      // beta 0 does not read C, which may hold NaNs.
      const float old = p.beta == 0.0F ? 0.0F : p.beta * load(p.c, i);
      store(p.c, i, p.alpha * sums[static_cast<std::size_t>(row)] + old);
    }
  }
}

bool is_known(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

/// Is all that the product touches memory which the handle's GPU reaches?
bool check(const char* name, const Operand& x, int rows, int columns, int batches, int device) {
  if (rows == 0 || columns == 0) return true;
  const int stored_rows = x.transposed ? columns : rows;
  const int stored_columns = x.transposed ? rows : columns;
  if (x.leading < stored_rows) {
    explain(std::string("cuBLAS: the leading dimension of ") + name + " is " + std::to_string(x.leading) +
            ", below its " + std::to_string(stored_rows) + " rows");
    return false;
  }
  const std::size_t last =
      static_cast<std::size_t>(batches - 1) * static_cast<std::size_t>(x.stride) +
      static_cast<std::size_t>(stored_columns - 1) * static_cast<std::size_t>(x.leading) +
      static_cast<std::size_t>(stored_rows);
  const Place place = machine().locate(x.data);
  const bool reached =
      place.kind == Place::Kind::device && place.live && machine().can_reach(device, place.device);
  const auto offset = reinterpret_cast<std::uintptr_t>(x.data) - place.start;
  if (reached && offset + last * size_of(x.type) <= place.bytes) return true;
  explain(std::string("cuBLAS: ") + name + " at " + hex(x.data) + " is not " +
          std::to_string(last * size_of(x.type)) + " bytes of memory of GPU " + std::to_string(device));
  return false;
}

}  // namespace

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (machine().device_count() == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext{current_device(), nullptr, CUBLAS_DEFAULT_MATH};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool on_gpu = workspace == nullptr || machine().locate(workspace).kind == Place::Kind::device;
  return on_gpu ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k, const void* alpha,
                                          const void* A, cudaDataType Atype, int lda, long long strideA,
                                          const void* B, cudaDataType Btype, int ldb, long long strideB,
                                          const void* beta, void* C, cudaDataType Ctype, int ldc,
                                          long long strideC, int batchCount, cublasComputeType_t compute,
                                          cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || batchCount < 0 || alpha == nullptr || beta == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool low_inputs = Atype != CUDA_R_32F;
  if (!is_known(Atype) || Atype != Btype || (Ctype != Atype && Ctype != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m == 0 || n == 0 || batchCount == 0) return CUBLAS_STATUS_SUCCESS;
  const bool tf32 =
      !low_inputs && (compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                      (compute == CUBLAS_COMPUTE_32F && handle->math == CUBLAS_TF32_TENSOR_OP_MATH));
  const Product product{m,
                        n,
                        k,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        {A, Atype, lda, strideA, transa != CUBLAS_OP_N},
                        {B, Btype, ldb, strideB, transb != CUBLAS_OP_N},
                        {C, Ctype, ldc, strideC, false},
                        batchCount,
                        tf32};
  if (!check("A", product.a, m, k, batchCount, handle->device) ||
      !check("B", product.b, k, n, batchCount, handle->device) ||
      !check("C", product.c, m, n, batchCount, handle->device)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  submit_in_order(queue_of(handle->stream), [product] {
    for (int batch = 0; batch < product.batches; ++batch) multiply(product, batch);
  });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void* alpha, const void* A, cudaDataType Atype, int lda,
                            const void* B, cudaDataType Btype, int ldb, const void* beta, void* C,
                            cudaDataType Ctype, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb,
                                    0, beta, C, Ctype, ldc, 0, 1, compute, algo);
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                           int n, int k, const float* alpha, const float* A, int lda, const float* B, int ldb,
                           const float* beta, float* C, int ldc) {
  return cublasGemmEx(handle, transa, transb, m, n, k, alpha, A, CUDA_R_32F, lda, B, CUDA_R_32F, ldb, beta, C,
                      CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
