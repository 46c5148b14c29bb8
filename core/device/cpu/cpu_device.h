// The CPU as a device: the reference for every other one.
#pragma once

#include <functional>
#include <memory>

#include "core/device/device.h"

namespace zero1 {

struct CpuOptions {
  int threads = 1;  ///< that one operation may use; 1 never starts a thread pool
};

/// A CPU stream runs closures. The compute stream runs them inline on the calling thread; the
/// communication stream on a worker thread of its own.
class CpuStream : public Stream {
 public:
  virtual void submit(std::function<void()> work) = 0;
};

/// One rank's CPU device. Results are the same bits for the same `threads`.
std::unique_ptr<Device> make_cpu_device(const CpuOptions& options);

}  // namespace zero1
