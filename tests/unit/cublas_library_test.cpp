// cuBLAS is found and has our functions, also where there is no GPU.
#include <doctest/doctest.h>

#ifdef ZERO1_HAVE_CUDA
#include "core/device/cuda/cublas_library.h"

TEST_CASE("cuBLAS is loaded, and says that there is no GPU rather than crash") {
  const zero1::cuda::CublasLibrary& library = zero1::cuda::cublas_library();
  const bool found = library.gemm != nullptr;
  CHECK(found);
  cublasHandle_t handle = nullptr;
  if (library.create(&handle) == CUBLAS_STATUS_SUCCESS)
    CHECK(library.destroy(handle) == CUBLAS_STATUS_SUCCESS);
}
#else
#include "tests/support/skip.h"

TEST_CASE("cuBLAS is loaded") {
  zero1::test::skip("this build is without CUDA");
}
#endif
