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
    fault->value = tokens[first];
    fault->position = first;
    fault->vocab = vocab;
    __threadfence_system();
    atomicExch_system(&fault->what, static_cast<int>(what));  // last: the host reads the rest when it sees it
  }
}

}  // namespace

TokenFaults::TokenFaults() {
  ZERO1_CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&fault_), sizeof(TokenFault)));
  *fault_ = {};
}

TokenFaults::~TokenFaults() {
  cudaFreeHost(fault_);
}

void TokenFaults::check(cudaStream_t stream, const std::int32_t* tokens, std::int64_t n, std::int64_t vocab,
                        TokenFault::What what) {
  if (n == 0) return;
  launch(&check_tokens_kernel, 1, threads_per_block, 0, stream, fault_, tokens, n, vocab, what);
}

void TokenFaults::rethrow() {
  const int what = std::atomic_ref(fault_->what).load(std::memory_order_acquire);
  if (what == TokenFault::none) return;
  seen_ = true;
  throw Error(std::string(what == TokenFault::target ? "target " : "token ") + std::to_string(fault_->value) +
              " at position " + std::to_string(fault_->position) + " is outside of the vocabulary [0, " +
              std::to_string(fault_->vocab) + ")");
}

}  // namespace zero1::cuda
