// Streams run in order and beside each other; events, and nothing else, order them.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/test_kernels.h"
#include "tests/cuda_emulation/test_memory.h"
#include "tests/support/sanitizers.h"

using namespace zero1::test;
using namespace std::chrono_literals;

namespace {

/// Holds a stream until `open`.
class Gate {
 public:
  void hold(cudaStream_t stream) {
    ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
        stream, [](void* self) { static_cast<Gate*>(self)->pass(); }, this));
  }
  void open() { open_ = true; }

 private:
  void pass() const {
    while (!open_) std::this_thread::sleep_for(1ms);
  }
  std::atomic<bool> open_{false};
};

class LagScope {
 public:
  explicit LagScope(cuda_emulation::Lagging which) { cuda_emulation::set_lag(which); }
  LagScope(const LagScope&) = delete;
  LagScope& operator=(const LagScope&) = delete;
  ~LagScope() { cuda_emulation::set_lag(cuda_emulation::Lagging::none); }
};

/// One stream writes 2 over 1, another copies: what does the copy hold, with and without the event between?
float copied_value(bool with_wait, int producer_priority) {
  const StreamOwner producer(producer_priority);
  const StreamOwner consumer(producer_priority == 0 ? -1 : 0);
  const EventOwner written;
  const GpuArray<float> data(1);
  const GpuArray<float> copy(1);
  launch_fill(data.data(), 1.0F, 1, producer);
  producer.synchronize();
  launch_fill(data.data(), 2.0F, 1, producer);
  ZERO1_CUDA_CHECK(cudaEventRecord(written, producer));
  if (with_wait) ZERO1_CUDA_CHECK(cudaStreamWaitEvent(consumer, written));
  ZERO1_CUDA_CHECK(
      cudaMemcpyAsync(copy.data(), data.data(), sizeof(float), cudaMemcpyDeviceToDevice, consumer));
  const float value = copy.read(consumer)[0];
  producer.synchronize();
  return value;
}

}  // namespace

TEST_CASE("the host does not wait for a stream, and two streams not for each other") {
  const StreamOwner held;
  const StreamOwner other;
  Gate gate;
  gate.hold(held);
  const GpuArray<float> data(7);
  launch_fill(data.data(), 3.0F, 7, other);
  CHECK(data.read(other)[6] == 3.0F);
  CHECK(cudaStreamQuery(held) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(other) == cudaSuccess);
  gate.open();
  held.synchronize();
  CHECK(cudaStreamQuery(held) == cudaSuccess);
}

TEST_CASE("an event holds another stream and tells when it is reached") {
  const StreamOwner first;
  const StreamOwner second;
  const EventOwner event;
  const GpuArray<float> data(5);
  CHECK(cudaEventQuery(event) == cudaSuccess);  // never recorded
  Gate gate;
  gate.hold(first);
  launch_fill(data.data(), 1.0F, 5, first);
  ZERO1_CUDA_CHECK(cudaEventRecord(event, first));
  ZERO1_CUDA_CHECK(cudaStreamWaitEvent(second, event));
  launch_add(data.data(), 1.0F, 5, second);
  std::this_thread::sleep_for(5ms);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(second) == cudaErrorNotReady);
  gate.open();
  CHECK(data.read(second)[4] == 2.0F);
  CHECK(cudaEventQuery(event) == cudaSuccess);
}

TEST_CASE("recording again does not move a wait that is queued") {
  const StreamOwner first;
  const StreamOwner second;
  const EventOwner event;
  ZERO1_CUDA_CHECK(cudaEventRecord(event, first));
  ZERO1_CUDA_CHECK(cudaStreamWaitEvent(second, event));
  Gate gate;
  gate.hold(first);
  ZERO1_CUDA_CHECK(cudaEventRecord(event, first));
  second.synchronize();  // does not wait for the gate
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  gate.open();
  ZERO1_CUDA_CHECK(cudaEventSynchronize(event));
}

TEST_CASE("elapsed time spans the work between two events") {
  const StreamOwner stream;
  const EventOwner start(cudaEventDefault);
  const EventOwner end(cudaEventDefault);
  const EventOwner untimed;
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, start, end) == cudaErrorInvalidResourceHandle);
  ZERO1_CUDA_CHECK(cudaEventRecord(start, stream));
  ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(20ms); }, nullptr));
  ZERO1_CUDA_CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventElapsedTime(&ms, start, end) == cudaErrorNotReady);
  ZERO1_CUDA_CHECK(cudaEventSynchronize(end));
  ZERO1_CUDA_CHECK(cudaEventElapsedTime(&ms, start, end));
  CHECK(ms >= 19.0F);
  ZERO1_CUDA_CHECK(cudaEventRecord(untimed, stream));
  stream.synchronize();
  CHECK(cudaEventElapsedTime(&ms, start, untimed) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("the default stream is ordered with blocking streams only") {
  cudaStream_t blocking = nullptr;
  ZERO1_CUDA_CHECK(cudaStreamCreate(&blocking));
  const StreamOwner non_blocking;
  const GpuArray<float> data(3);
  Gate gate;
  gate.hold(blocking);
  launch_fill(data.data(), 1.0F, 3, blocking);
  launch_add(data.data(), 1.0F, 3, nullptr);
  launch_add(data.data(), 1.0F, 3, blocking);
  non_blocking.synchronize();
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  gate.open();
  CHECK(data.read(blocking)[2] == 3.0F);
  ZERO1_CUDA_CHECK(cudaStreamDestroy(blocking));
}

// To TSan this is a race, as it should be: faults_test.cpp.
TEST_CASE("a missing wait gives the old value when the producing stream lags" * doctest::skip(under_tsan)) {
  for (const bool communication : {false, true}) {
    CAPTURE(communication);
    const LagScope lag(communication ? cuda_emulation::Lagging::communication
                                     : cuda_emulation::Lagging::compute);
    CHECK(copied_value(true, communication ? -1 : 0) == 2.0F);
    CHECK(copied_value(false, communication ? -1 : 0) == 1.0F);
  }
}

TEST_CASE("a lagging stream comes without being asked") {
  const LagScope lag(cuda_emulation::Lagging::all);
  const StreamOwner stream;
  std::atomic<bool> ran{false};
  ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
      stream, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &ran));
  CHECK_FALSE(ran);
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (!ran && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
  CHECK(ran);
}
