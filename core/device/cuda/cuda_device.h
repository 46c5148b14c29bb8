// An NVIDIA GPU as a device.
#pragma once

#include <cuda_runtime.h>

#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "core/device/device.h"

namespace zero1 {

struct CudaOptions {
  int ordinal = 0;    ///< which GPU; several ranks may share one
  bool tf32 = false;  ///< fp32 matrix products in TF32: faster, 10-bit mantissa
  int rank = -1;      ///< named when memory runs out; -1: nobody
};

/// What has gone wrong with a device's queued work and CUDA cannot know, such as a collective that was
/// aborted: its streams run on, over wrong data. Whoever synchronises a stream or event of the device throws
/// it. Thread-safe; the first failure is kept.
class StreamFailure {
 public:
  void set(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }

  void rethrow() const {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
};

/// A CUDA stream. The compute stream has normal, the communication stream high priority.
class CudaStream : public Stream {
 public:
  virtual cudaStream_t handle() const = 0;
  virtual int ordinal() const = 0;

  /// The device's, shared by all of its streams and events.
  virtual std::shared_ptr<StreamFailure> failure() const = 0;
};

/// Visible GPUs. Throws InputError in words where there is no driver or no GPU.
int cuda_device_count();

/// One rank's GPU. Activations are cached per rank and reused in the order of its compute stream, the only
/// one that may use them, so that they may be freed while that stream still does; the device has one compute
/// stream. Freeing any other memory waits until the GPU has done what is queued.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options);

}  // namespace zero1
