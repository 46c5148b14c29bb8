// What the GPU communicators need of CUDA beside a Device: the current GPU, and points in streams.
#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <stdexcept>

#include "core/device/cuda/cuda_check.h"
#include "core/device/cuda/cuda_device.h"

namespace zero1::gpu {

/// Makes a GPU the calling thread's current one, and puts the former one back.
class CurrentGpu {
 public:
  explicit CurrentGpu(int ordinal) {
    ZERO1_CUDA_CHECK(cudaGetDevice(&former_));
    if (former_ != ordinal) ZERO1_CUDA_CHECK(cudaSetDevice(ordinal));
  }
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;
  ~CurrentGpu() { static_cast<void>(cudaSetDevice(former_)); }

 private:
  int former_ = 0;
};

/// A point in a stream of the GPU that is current when it is made. Made for ordering, so it takes no time
/// stamp. It may be destroyed while streams wait for it.
class StreamPoint {
 public:
  StreamPoint() { ZERO1_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;
  ~StreamPoint() { static_cast<void>(cudaEventDestroy(event_)); }

  void record(cudaStream_t stream) { ZERO1_CUDA_CHECK(cudaEventRecord(event_, stream)); }

  /// What is queued on `stream` from now on, on any GPU, starts after the point.
  void order(cudaStream_t stream) const { ZERO1_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }

  /// Does not block. A stream that has failed counts as having reached it.
  bool reached() const { return cudaEventQuery(event_) != cudaErrorNotReady; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The CUDA stream behind `stream`, which must be on GPU `ordinal`.
inline CudaStream& require_cuda_stream(Stream& stream, int ordinal) {
  auto* cuda = dynamic_cast<CudaStream*>(&stream);
  if (cuda == nullptr) {
    throw std::invalid_argument(
        "a GPU communicator runs its collectives on CUDA streams, and this stream is of another device; use "
        "that device's communicator");
  }
  if (cuda->ordinal() != ordinal) {
    throw std::invalid_argument(fmt::format("a stream of GPU {}, but this rank's communicator is for GPU {}",
                                            cuda->ordinal(), ordinal));
  }
  return *cuda;
}

}  // namespace zero1::gpu
