#include "runtime/errors.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace cuda_emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Words {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define ZERO1_WORDS(error, text) \
  Words {                        \
    error, #error, text          \
  }
constexpr Words all_words[] = {
    ZERO1_WORDS(cudaSuccess, "no error"),
    ZERO1_WORDS(cudaErrorInvalidValue, "invalid argument"),
    ZERO1_WORDS(cudaErrorMemoryAllocation, "out of memory"),
    ZERO1_WORDS(cudaErrorInitializationError, "initialization error"),
    ZERO1_WORDS(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ZERO1_WORDS(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ZERO1_WORDS(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    ZERO1_WORDS(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ZERO1_WORDS(cudaErrorInvalidDevice, "invalid device ordinal"),
    ZERO1_WORDS(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ZERO1_WORDS(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ZERO1_WORDS(cudaErrorNotReady, "device not ready"),
    ZERO1_WORDS(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ZERO1_WORDS(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ZERO1_WORDS(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ZERO1_WORDS(cudaErrorLaunchFailure, "unspecified launch failure"),
    ZERO1_WORDS(cudaErrorNotSupported, "operation not supported"),
    ZERO1_WORDS(cudaErrorUnknown, "unknown error"),
};
#undef ZERO1_WORDS

const Words& words(cudaError_t error) {
  for (const Words& candidate : all_words) {
    if (candidate.error == error) return candidate;
  }
  return words(cudaErrorUnknown);
}

}  // namespace

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

cudaError_t fail(cudaError_t error, const std::string& why) {
  explain(why);
  return fail(error);
}

void explain(const std::string& what) {
  std::fprintf(stderr, "cuda emulation: %s\n", what.c_str());
}

void fatal(const std::string& what) {
  explain(what);
  std::fflush(nullptr);
  std::abort();
}

std::string hex(const void* pointer) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIxPTR, reinterpret_cast<std::uintptr_t>(pointer));
  return text;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;

const char* cudaGetErrorName(cudaError_t error) {
  return words(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return words(error).text;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}
