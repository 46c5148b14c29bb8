// The check of tokens and targets.
#include "core/device/cuda/token_fault.h"

#include <string>

#include "core/base/error.h"
#include "core/device/cuda/elementwise.cuh"
#include "core/device/cuda/reduce.cuh"

namespace zero1::cuda {

namespace {

/// Notes the first token outside of [0, vocab), unless an earlier operation has noted one. One block.
__global__ void check_tokens_kernel(TokenFault* fault, const std::int32_t* tokens, std::int64_t n,
                                    std::int64_t vocab, TokenFault::What what) {
  std::int64_t first = n;
  for (std::int64_t i = threadIdx.x; i < n && first == n; i += blockDim.x) {
    if (tokens[i] < 0 || tokens[i] >= vocab) first = i;
  }
  first = -block_max(-first, -n);
  if (threadIdx.x == 0 && first < n && fault->what == TokenFault::none) {
    *fault = {what, tokens[first], first, vocab};
  }
}

}  // namespace

TokenFaults::TokenFaults(cudaStream_t stream) {
  ZERO1_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&on_device_), sizeof(TokenFault)));
  ZERO1_CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&on_host_), sizeof(TokenFault)));
  *on_host_ = {};
  ZERO1_CUDA_CHECK(cudaMemsetAsync(on_device_, 0, sizeof(TokenFault), stream));
}

TokenFaults::~TokenFaults() {
  cudaFree(on_device_);
  cudaFreeHost(on_host_);
}

void TokenFaults::check(cudaStream_t stream, const std::int32_t* tokens, std::int64_t n, std::int64_t vocab,
                        TokenFault::What what) {
  if (n == 0) return;
  launch(&check_tokens_kernel, 1, threads_per_block, 0, stream, on_device_, tokens, n, vocab, what);
  ZERO1_CUDA_CHECK(cudaMemcpyAsync(on_host_, on_device_, sizeof(TokenFault), cudaMemcpyDeviceToHost, stream));
}

void TokenFaults::rethrow() {
  if (on_host_->what == TokenFault::none) return;
  seen_ = true;
  throw Error(std::string(on_host_->what == TokenFault::target ? "target " : "token ") +
              std::to_string(on_host_->value) + " at position " + std::to_string(on_host_->position) +
              " is outside of the vocabulary [0, " + std::to_string(on_host_->vocab) + ")");
}

}  // namespace zero1::cuda
