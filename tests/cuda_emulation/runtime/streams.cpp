// The runtime API's streams and events.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "cuda_emulation/control.h"
#include "runtime/errors.h"
#include "runtime/machine.h"

namespace cuda_emulation {
namespace {

/// One recorded point. Each has its own address for TSan: who waits for it is ordered after the work
/// before it, and not after what the stream did later.
class Mark {
 public:
  Mark(Ref<Queue> queue) : queue_(std::move(queue)) {}

  void submit(const Ref<Mark>& self) {
    const std::uint64_t number = submit_in_order(queue_, [self] { self->reach(); });
    const Quiet quiet;
    const std::lock_guard lock(mutex_);
    number_ = number;
  }

  bool reached() {
    if (!machine().delays().on()) demand();
    bool is_reached = false;
    {
      const Quiet quiet;
      const std::lock_guard lock(mutex_);
      is_reached = reached_;
    }
    if (is_reached) acquired(&sync_);
    return is_reached;
  }

  void wait() {
    demand();
    {
      const Quiet quiet;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return reached_; });
    }
    acquired(&sync_);
  }

  Clock::time_point time() const {
    const Quiet quiet;
    const std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  void demand() {
    std::uint64_t number = 0;
    {
      const Quiet quiet;
      const std::lock_guard lock(mutex_);
      number = number_;
    }
    queue_->demand(number);
  }

  void reach() {
    released(&sync_);
    const Quiet quiet;
    const std::lock_guard lock(mutex_);
    reached_ = true;
    time_ = Clock::now();
    changed_.notify_all();
  }

  const Ref<Queue> queue_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t number_ = 0;
  bool reached_ = false;
  Clock::time_point time_;
  char sync_ = 0;
};

}  // namespace
}  // namespace cuda_emulation

using namespace cuda_emulation;

struct CUevent_st {
  int device;
  bool timed;
  std::mutex mutex;
  Ref<Mark> last;  ///< empty before the first record

  Ref<Mark> mark() {
    const Quiet quiet;
    const std::lock_guard lock(mutex);
    return last;
  }
};

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (machine().device_count() == 0) return fail(cudaErrorInsufficientDriver);
  if (flags > cudaStreamNonBlocking) return fail(cudaErrorInvalidValue);
  int least = 0;
  int greatest = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  const int clamped = std::clamp(priority, greatest, least);
  *stream = new CUstream_st{machine().open_queue(current_device(), clamped, flags != cudaStreamNonBlocking)};
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = queue_of(stream)->priority();
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return fail(cudaErrorInvalidResourceHandle);
  machine().close_queue(stream->queue);
  const Quiet quiet;
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Ref<Queue> queue = queue_of(stream);
  queue->wait(queue->submitted());
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Ref<Queue> queue = queue_of(stream);
  // "Not ready" is an answer, and CUDA does not count it as an error.
  return queue->finished(queue->submitted()) ? cudaSuccess : cudaErrorNotReady;
}

namespace {

std::int64_t skipped_from_environment() {
  const char* text = std::getenv("ZERO1_EMULATED_SKIP_WAIT");
  return text == nullptr ? -1 : std::atoll(text);
}

/// The waits of one GPU's streams, as they are submitted.
struct WaitCount {
  std::atomic<std::int64_t> submitted{0};
  std::atomic<std::int64_t> skipped{skipped_from_environment()};  ///< the number of the first to leave out
  std::atomic<std::int64_t> every{0};

  /// Is the next one to be left out? Counting orders no two host threads.
  bool skip_next() {
    const Quiet quiet;
    const std::int64_t beyond = submitted++ - skipped;
    if (skipped < 0 || beyond < 0) return false;
    return beyond == 0 || (every > 0 && beyond % every == 0);
  }
};

WaitCount& waits_of(int device) {
  static WaitCount counts[max_devices];
  return counts[device];
}

}  // namespace

void cuda_emulation::skip_stream_wait(int device, std::int64_t number, std::int64_t every) {
  waits_of(device).submitted = 0;
  waits_of(device).every = every;
  waits_of(device).skipped = number;
}

std::int64_t cuda_emulation::stream_waits(int device) {
  return waits_of(device).submitted;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventWaitDefault) return fail(cudaErrorInvalidValue);
  if (waits_of(queue_of(stream)->device()).skip_next()) return cudaSuccess;
  if (const Ref<Mark> mark = event->mark()) submit_in_order(queue_of(stream), [mark] { mark->wait(); });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  if (function == nullptr) return fail(cudaErrorInvalidValue);
  submit_in_order(queue_of(stream), [function, user_data] { function(user_data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (machine().device_count() == 0) return fail(cudaErrorInsufficientDriver);
  *event = new CUevent_st{current_device(), (flags & cudaEventDisableTiming) == 0, {}, {}};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const Quiet quiet;
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const Ref<Queue> queue = queue_of(stream);
  if (queue->device() != event->device) {
    return fail(cudaErrorInvalidResourceHandle, "cudaEventRecord of an event of GPU " +
                                                    std::to_string(event->device) + " on a stream of GPU " +
                                                    std::to_string(queue->device()));
  }
  Ref<Mark> mark = Ref<Mark>::make(queue);
  mark->submit(mark);
  const Quiet quiet;
  const std::lock_guard lock(event->mutex);
  event->last = mark;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  const Ref<Mark> mark = event->mark();
  return !mark || mark->reached() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return fail(cudaErrorInvalidResourceHandle);
  if (const Ref<Mark> mark = event->mark()) mark->wait();
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (start == nullptr || end == nullptr || !start->timed || !end->timed) {
    return fail(cudaErrorInvalidResourceHandle);
  }
  const Ref<Mark> first = start->mark();
  const Ref<Mark> second = end->mark();
  if (!first || !second) return fail(cudaErrorInvalidResourceHandle);
  if (!first->reached() || !second->reached()) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(second->time() - first->time()).count();
  return cudaSuccess;
}
