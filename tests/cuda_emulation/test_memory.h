// RAII and checks for the emulation's own tests.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "core/device/cuda/cuda_check.h"

namespace zero1::test {

class StreamOwner {
 public:
  explicit StreamOwner(int priority = 0) {
    ZERO1_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority));
  }
  StreamOwner(const StreamOwner&) = delete;
  StreamOwner& operator=(const StreamOwner&) = delete;
  ~StreamOwner() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { ZERO1_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class EventOwner {
 public:
  explicit EventOwner(unsigned flags = cudaEventDisableTiming) {
    ZERO1_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags));
  }
  EventOwner(const EventOwner&) = delete;
  EventOwner& operator=(const EventOwner&) = delete;
  ~EventOwner() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

template <class T>
class GpuArray {
 public:
  explicit GpuArray(std::size_t count) : count_(count) {
    ZERO1_CUDA_CHECK(cudaMalloc(&data_, count * sizeof(T)));
  }
  GpuArray(std::size_t count, const std::vector<T>& values, cudaStream_t stream) : GpuArray(count) {
    ZERO1_CUDA_CHECK(
        cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream));
    ZERO1_CUDA_CHECK(cudaStreamSynchronize(stream));  // `values` may be a temporary
  }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;
  ~GpuArray() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t count() const { return count_; }

  /// Waits for the stream.
  std::vector<T> read(cudaStream_t stream) const {
    std::vector<T> values(count_);
    ZERO1_CUDA_CHECK(
        cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream));
    ZERO1_CUDA_CHECK(cudaStreamSynchronize(stream));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

}  // namespace zero1::test
