#include "core/device/cuda/gpu_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/device/cuda/cuda_check.h"

namespace zero1::cuda {

namespace {

constexpr std::int64_t refresh_after_ns = 100'000'000;
constexpr std::int64_t patience_ns = 300'000;        // for one round of catches beside running work
constexpr std::int64_t event_resolution_ns = 1'000;  // CUDA promises half a microsecond at either end
constexpr std::int64_t drift_parts = 20'000;         // clocks drift by at most 1 part in this: 50 ppm
constexpr std::int64_t spin_ns = 50'000;  // a catch that takes longer is no narrow one: let others run
constexpr int tries = 8;

}  // namespace

GpuClock::GpuClock() {
  ZERO1_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  ZERO1_CUDA_CHECK(cudaEventCreate(&anchor_.event));
  ZERO1_CUDA_CHECK(cudaEventCreate(&spare_.event));
  take(anchor_, std::numeric_limits<std::int64_t>::max());
  error_ns_ = bound(anchor_, 0);
}

/// What the clock promises with this anchor: also until the next is caught, and the one after if that fails.
std::int64_t GpuClock::bound(const Anchor& anchor, std::int64_t age_ns) {
  return anchor.error_ns + std::max(age_ns, 2 * refresh_after_ns) / drift_parts;
}

GpuClock::~GpuClock() {
  cudaStreamSynchronize(stream_);
  cudaEventDestroy(anchor_.event);
  cudaEventDestroy(spare_.event);
  cudaStreamDestroy(stream_);
}

std::int64_t GpuClock::host_ns(cudaEvent_t event) const {
  float milliseconds = 0;  // 24 bits: an anchor of the last seconds costs less than the resolution
  ZERO1_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, anchor_.event, event));
  return anchor_.host_ns + std::llround(static_cast<double>(milliseconds) * 1e6);
}

void GpuClock::refresh() {
  const std::int64_t now = now_ns();
  const std::int64_t age = now - anchor_.host_ns;
  if (age < refresh_after_ns) return;
  const std::int64_t known_within = anchor_.error_ns + age / drift_parts;
  if (take(spare_, now + patience_ns) && spare_.error_ns <= known_within) std::swap(anchor_, spare_);
  error_ns_ = bound(anchor_, now_ns() - anchor_.host_ns);
}

/// The narrowest of a few catches; false when the GPU was too busy for one.
bool GpuClock::take(Anchor& anchor, std::int64_t give_up_ns) const {
  std::int64_t narrowest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < tries; ++i) {
    const std::int64_t before = now_ns();
    ZERO1_CUDA_CHECK(cudaEventRecord(anchor.event, stream_));
    cudaError_t code = cudaSuccess;
    std::int64_t after = 0;
    do {
      code = cudaEventQuery(anchor.event);
      after = now_ns();
      if (code == cudaErrorNotReady && after > give_up_ns) return false;
      if (after - before > spin_ns) std::this_thread::yield();
    } while (code == cudaErrorNotReady);
    ZERO1_CUDA_CHECK(code);
    // The event of the last try is the anchor, so its own catch counts; a narrow one ends the search.
    anchor.host_ns = before + (after - before) / 2;
    anchor.error_ns = (after - before) / 2 + event_resolution_ns;
    const bool good_enough = i > 0 && after - before <= narrowest + narrowest / 8;
    narrowest = std::min(narrowest, after - before);
    if (good_enough) return true;
  }
  return true;
}

}  // namespace zero1::cuda
