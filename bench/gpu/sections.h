// The parts of gpu_bench.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/gpu/figures.h"
#include "core/device/cuda/cuda_check.h"

namespace zero1::bench {

/// How large and how often. `tiny` finds out whether everything runs, and measures nothing.
struct Sizes {
  bool tiny = false;
  std::int64_t elems = std::int64_t{1} << 26;  ///< of elementwise operations: far beyond every cache
  std::vector<std::int64_t> bucket_mib{1, 16, 256};
  std::int64_t matmul = 8192;
  int rounds = 5;    ///< of which the best counts
  int repeats = 10;  ///< launches in a round
  int steps = 12;    ///< of a training run
};

/// What the machine is capable of, found by the first sections and used as bounds by the others.
struct Limits {
  double copy_gb_s = 0;      ///< bytes read and written by copies within GPU 0
  double peer_gb_s = 0;      ///< bytes that copies from GPU 0 to GPU 1 carry; 0: there is one GPU
  double matmul_tflops = 0;  ///< of a large bf16 product
};

/// Device time of work on one stream.
class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    ZERO1_CUDA_CHECK(cudaEventCreate(&begin_));
    ZERO1_CUDA_CHECK(cudaEventCreate(&end_));
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  /// Seconds that one `once()` takes: the best of the rounds, each of `repeats` in a row. The first round
  /// only warms up.
  template <class Once>
  double seconds(const Sizes& sizes, const Once& once) {
    double best = 1e30;
    for (int round = 0; round <= sizes.rounds; ++round) {
      ZERO1_CUDA_CHECK(cudaEventRecord(begin_, stream_));
      for (int i = 0; i < sizes.repeats; ++i) once();
      ZERO1_CUDA_CHECK(cudaEventRecord(end_, stream_));
      ZERO1_CUDA_CHECK(cudaEventSynchronize(end_));
      float ms = 0;
      ZERO1_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_, end_));
      if (round > 0) best = std::min(best, static_cast<double>(ms) * 1e-3 / sizes.repeats);
    }
    return best;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

void measure_limits(Figures& figures, const Sizes& sizes, Limits& limits);
void measure_operations(Figures& figures, const Sizes& sizes, const Limits& limits);
void measure_collectives(Figures& figures, const Sizes& sizes, const Limits& limits);
void measure_training(Figures& figures, const Sizes& sizes, const Limits& limits);

}  // namespace zero1::bench
