// Matrix products against a product in double precision, transposed and strided, in every dtype.
#include <cublas_v2.h>
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/cuda_emulation/test_memory.h"

using namespace zero1::test;

namespace {

class Blas {
 public:
  explicit Blas(cudaStream_t stream) {
    REQUIRE(cublasCreate(&handle_) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSetStream(handle_, stream) == CUBLAS_STATUS_SUCCESS);
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() { cublasDestroy(handle_); }
  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

template <class T>
std::vector<T> values(std::size_t count, int seed) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] =
        T(static_cast<float>(static_cast<int>(i * 37 + static_cast<std::size_t>(seed)) % 17 - 8) * 0.125F);
  }
  return result;
}

constexpr int m = 3, n = 5, k = 7, batches = 2;
constexpr int lead_a = 9, lead_b = 8, lead_c = 4;  // each above its rows, transposed or not

/// C = 2 op(A) op(B) + beta C of one batch in double, from column-major storage.
template <class T>
double expected(const std::vector<T>& a, const std::vector<T>& b, double old, float beta, bool ta, bool tb,
                int row, int column, std::size_t a_start, std::size_t b_start) {
  double sum = 0;
  for (int x = 0; x < k; ++x) {
    const auto ia = a_start + static_cast<std::size_t>(ta ? x + row * lead_a : row + x * lead_a);
    const auto ib = b_start + static_cast<std::size_t>(tb ? column + x * lead_b : x + column * lead_b);
    sum += static_cast<double>(static_cast<float>(a[ia])) * static_cast<double>(static_cast<float>(b[ib]));
  }
  return 2 * sum + (beta == 0.0F ? 0.0 : static_cast<double>(beta) * old);
}

template <class T>
void check_products(cudaDataType type, double tolerance) {
  const StreamOwner stream;
  const Blas blas(stream);
  constexpr long long stride_a = lead_a * 7, stride_b = lead_b * 7, stride_c = lead_c * n;
  const auto a = values<T>(static_cast<std::size_t>(stride_a * batches), 1);
  const auto b = values<T>(static_cast<std::size_t>(stride_b * batches), 2);
  const GpuArray<T> on_a(a.size(), a, stream);
  const GpuArray<T> on_b(b.size(), b, stream);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const float beta : {0.0F, 0.5F}) {
        CAPTURE(ta);
        CAPTURE(tb);
        CAPTURE(beta);
        // beta 0 must not read C.
        const float start = beta == 0.0F ? std::numeric_limits<float>::quiet_NaN() : 4.0F;
        const std::vector<T> c(static_cast<std::size_t>(stride_c * batches), T(start));
        const GpuArray<T> on_c(c.size(), c, stream);
        const float alpha = 2.0F;
        REQUIRE(cublasGemmStridedBatchedEx(blas, ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                                           tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha, on_a.data(), type,
                                           lead_a, stride_a, on_b.data(), type, lead_b, stride_b, &beta,
                                           on_c.data(), type, lead_c, stride_c, batches, CUBLAS_COMPUTE_32F,
                                           CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
        const std::vector<T> result = on_c.read(stream);
        for (int batch = 0; batch < batches; ++batch) {
          for (int i = 0; i < m * n; ++i) {
            const auto at = static_cast<std::size_t>(batch * stride_c + i % m + i / m * lead_c);
            const double want = expected(a, b, static_cast<double>(start), beta, ta, tb, i % m, i / m,
                                         static_cast<std::size_t>(batch * stride_a),
                                         static_cast<std::size_t>(batch * stride_b));
            CHECK(std::abs(static_cast<double>(static_cast<float>(result[at])) - want) <=
                  tolerance * std::max(1.0, std::abs(want)));
          }
          // The row behind the matrix is not touched.
          const float untouched = static_cast<float>(result[static_cast<std::size_t>(batch * stride_c + m)]);
          CHECK((beta == 0.0F ? std::isnan(untouched) : untouched == 4.0F));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("fp32, bf16 and fp16 products, transposed, strided and scaled") {
  check_products<float>(CUDA_R_32F, 0);  // multiples of 1/64 below 2^24: exact
  check_products<__nv_bfloat16>(CUDA_R_16BF, 1.0 / 256);
  check_products<__half>(CUDA_R_16F, 1.0 / 2048);
}

TEST_CASE("TF32 drops thirteen bits of fp32 inputs, where it is asked for") {
  const StreamOwner stream;
  const Blas blas(stream);
  const float one = 1.0F;
  const float zero = 0.0F;
  const GpuArray<float> a(1, {1.0F + 0x1p-13F}, stream);
  const GpuArray<float> b(1, {1.0F}, stream);
  const GpuArray<float> c(1);
  const auto product = [&](cublasMath_t mode) {
    REQUIRE(cublasSetMathMode(blas, mode) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a.data(), 1, b.data(), 1, &zero,
                        c.data(), 1) == CUBLAS_STATUS_SUCCESS);
    return c.read(stream)[0];
  };
  CHECK(product(CUBLAS_DEFAULT_MATH) == 1.0F + 0x1p-13F);
  CHECK(product(CUBLAS_TF32_TENSOR_OP_MATH) == 1.0F);
}

TEST_CASE("host pointers, short matrices and small leading dimensions are refused") {
  const StreamOwner stream;
  const Blas blas(stream);
  const float one = 1.0F;
  float host[16] = {};
  const GpuArray<float> data(16);
  const auto product = [&](const float* a, int rows, int lead) {
    return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, rows, 1, 2, &one, a, lead, data.data(), 2, &one,
                       data.data(), 16);
  };
  CHECK(product(host, 2, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product(data.data(), 2, 1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product(data.data(), 9, 9) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product(data.data(), 8, 8) == CUBLAS_STATUS_SUCCESS);
  stream.synchronize();
}
