// Errors that kernels find in their input: a token or target outside of the vocabulary.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace zero1::cuda {

/// The first bad token that a stream's operations met; `what` 0: none yet.
struct TokenFault {
  enum What : std::int32_t { none = 0, token = 1, target = 2 };
  int what;
  std::int32_t value;
  std::int64_t position;
  std::int64_t vocab;
};

/// A kernel cannot throw. It notes the fault in pinned host memory, and whoever waits for the stream next
/// throws it. Until then operations take a bad token for 0, so that nothing is read or written out of
/// bounds. A good token costs no write: the host may look while later checks run.
class TokenFaults {
 public:
  TokenFaults();
  TokenFaults(const TokenFaults&) = delete;
  TokenFaults& operator=(const TokenFaults&) = delete;
  ~TokenFaults();

  /// Queues a check of n tokens against [0, vocab) on `stream`.
  void check(cudaStream_t stream, const std::int32_t* tokens, std::int64_t n, std::int64_t vocab,
             TokenFault::What what);

  /// Throws Error for the fault that has reached the host. The stream must have passed the checks.
  void rethrow();
  bool seen() const { return seen_.load(); }  ///< has anybody been thrown it?

 private:
  TokenFault* fault_ = nullptr;  ///< pinned: GPU and host see the same bytes
  std::atomic<bool> seen_{false};
};

}  // namespace zero1::cuda
