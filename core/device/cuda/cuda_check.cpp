#include "core/device/cuda/cuda_check.h"

#include <string_view>

namespace zero1 {

namespace {

/// The path from the root of the sources on, wherever they were compiled.
std::string_view place_in_tree(std::string_view file) {
  const auto start = file.rfind("core/");
  return start == std::string_view::npos ? file : file.substr(start);
}

std::string current_gpu() {
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess) return "no GPU";
  return "GPU " + std::to_string(ordinal);
}

std::string describe(cudaError_t code, const char* call, const char* file, int line) {
  return std::string("CUDA: ") + call + " failed on " + current_gpu() + ": " + cudaGetErrorName(code) + ", " +
         cudaGetErrorString(code) + " (" + std::string(place_in_tree(file)) + ":" + std::to_string(line) +
         ")";
}

}  // namespace

CudaError::CudaError(cudaError_t code, const char* call, const char* file, int line)
    : Error(describe(code, call, file, line)), code_(code) {}

}  // namespace zero1
