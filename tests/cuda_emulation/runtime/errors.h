// How the emulation reports what it sees.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace cuda_emulation {

/// Makes `error` the thread's last error and returns it.
cudaError_t fail(cudaError_t error);

/// The same, with an explanation on standard error: for misuse that a real GPU would not explain.
cudaError_t fail(cudaError_t error, const std::string& why);

void explain(const std::string& what);

/// For what corrupts memory or never ends on a real GPU: explains and aborts.
[[noreturn]] void fatal(const std::string& what);

std::string hex(const void* pointer);

}  // namespace cuda_emulation
