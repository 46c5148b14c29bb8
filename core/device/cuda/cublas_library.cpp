#include "core/device/cuda/cublas_library.h"

#ifdef ZERO1_CUBLAS_NAME
#include <dlfcn.h>

#include <string>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#endif

namespace zero1::cuda {

#ifdef ZERO1_CUBLAS_NAME

namespace {

/// As the system finds it, else where it was when this program was built.
void* open_library() {
  for (const char* name : {ZERO1_CUBLAS_NAME, ZERO1_CUBLAS_PATH}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw InputError(std::string("cuBLAS cannot be loaded: ") + dlerror() +
                   "; set LD_LIBRARY_PATH to the folder of CUDA's libraries, or use --device cpu");
}

// Without linking the functions: that the header declares them as the table has them.
template <auto member>
using Declared = std::remove_reference_t<decltype(std::declval<CublasLibrary&>().*member)>;
using Checks = std::void_t<decltype(static_cast<Declared<&CublasLibrary::create>>(&cublasCreate)),
                           decltype(static_cast<Declared<&CublasLibrary::destroy>>(&cublasDestroy)),
                           decltype(static_cast<Declared<&CublasLibrary::set_math_mode>>(&cublasSetMathMode)),
                           decltype(static_cast<Declared<&CublasLibrary::set_stream>>(&cublasSetStream)),
                           decltype(static_cast<Declared<&CublasLibrary::gemm>>(&cublasGemmEx)),
                           decltype(static_cast<Declared<&CublasLibrary::gemm_strided_batched>>(
                               &cublasGemmStridedBatchedEx))>;

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw InputError(std::string("cuBLAS has no ") + name +
                     ": this program was built with another version of CUDA");
  }
}

CublasLibrary load() {
  void* library = open_library();
  CublasLibrary functions{};
  find(library, "cublasCreate_v2", functions.create);
  find(library, "cublasDestroy_v2", functions.destroy);
  find(library, "cublasSetMathMode", functions.set_math_mode);
  find(library, "cublasSetStream_v2", functions.set_stream);
  find(library, "cublasGemmEx", functions.gemm);
  find(library, "cublasGemmStridedBatchedEx", functions.gemm_strided_batched);
  return functions;
}

}  // namespace

const CublasLibrary& cublas_library() {
  static const CublasLibrary library = load();
  return library;
}

#else  // linked

const CublasLibrary& cublas_library() {
  static constexpr CublasLibrary library{&cublasCreate,    &cublasDestroy, &cublasSetMathMode,
                                         &cublasSetStream, &cublasGemmEx,  &cublasGemmStridedBatchedEx};
  return library;
}

#endif

}  // namespace zero1::cuda
