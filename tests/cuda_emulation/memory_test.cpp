// Devices, memory and copies: what is refused, and that the words say why.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>

#include "cuda_emulation/control.h"
#include "tests/cuda_emulation/test_kernels.h"
#include "tests/cuda_emulation/test_memory.h"
#include "tests/support/sanitizers.h"

using namespace zero1::test;
using namespace std::chrono_literals;

namespace {

/// The error that `call` throws; success if none.
template <class Call>
cudaError_t error_of(Call call) {
  try {
    call();
  } catch (const zero1::CudaError& error) {
    return error.code();
  }
  return cudaSuccess;
}

class OnDevice {
 public:
  explicit OnDevice(int device) { ZERO1_CUDA_CHECK(cudaSetDevice(device)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaSetDevice(0); }
};

}  // namespace

TEST_CASE("without a GPU every call says that there is no driver") {
  cuda_emulation::set_device_count(0);
  int count = -1;
  void* pointer = nullptr;
  cudaStream_t stream = nullptr;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
  CHECK(count == 0);
  CHECK(cudaGetLastError() == cudaErrorInsufficientDriver);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaErrorInsufficientDriver);
  CHECK(cudaMalloc(&pointer, 1) == cudaErrorInsufficientDriver);
  CHECK(cudaStreamCreate(&stream) == cudaErrorInsufficientDriver);
  CHECK(std::string(cudaGetErrorName(cudaErrorInsufficientDriver)) == "cudaErrorInsufficientDriver");
  cuda_emulation::set_device_count(4);
  CHECK(cudaSetDevice(4) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(3) == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("a GPU has the memory and the compute capability that it was given") {
  cuda_emulation::set_memory_bytes(2, 10'000);
  cuda_emulation::set_compute_capability(2, 8, 6);
  const OnDevice device(2);
  cudaDeviceProp properties;
  ZERO1_CUDA_CHECK(cudaGetDeviceProperties(&properties, 2));
  CHECK(properties.major == 8);
  CHECK(properties.minor == 6);
  CHECK(properties.totalGlobalMem == 10'000);
  const GpuArray<char> most(9'000);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ZERO1_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  CHECK(free_bytes == 1'000);
  CHECK(total_bytes == 10'000);
  void* pointer = &pointer;
  CHECK(cudaMalloc(&pointer, 1'001) == cudaErrorMemoryAllocation);
  CHECK(pointer == nullptr);
  CHECK(cudaMalloc(&pointer, 1'000) == cudaSuccess);
  CHECK(cuda_emulation::allocated_bytes(2) == 10'000);
  ZERO1_CUDA_CHECK(cudaFree(pointer));
  cuda_emulation::set_memory_bytes(2, std::size_t{8} << 30);
}

TEST_CASE("fresh memory is NaN, aligned, and its addresses are not reused soon") {
  const StreamOwner stream;
  float* first = nullptr;
  ZERO1_CUDA_CHECK(cudaMalloc(&first, 5 * sizeof(float)));
  CHECK(reinterpret_cast<std::uintptr_t>(first) % 256 == 0);
  ZERO1_CUDA_CHECK(cudaFree(first));
  const GpuArray<float> second(5);
  CHECK(second.data() != first);
  for (const float value : second.read(stream)) CHECK(std::isnan(value));
}

TEST_CASE("frees of what is no allocation are errors") {
  float host = 0;
  const GpuArray<float> data(4);
  CHECK(cudaFree(&host) == cudaErrorInvalidValue);
  CHECK(cudaFree(data.data() + 1) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(&host) == cudaErrorInvalidValue);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  const std::size_t before = cuda_emulation::live_allocations();
  void* pointer = nullptr;
  ZERO1_CUDA_CHECK(cudaMalloc(&pointer, 4));
  CHECK(cuda_emulation::live_allocations() == before + 1);
  ZERO1_CUDA_CHECK(cudaFree(pointer));
  CHECK(cudaFree(pointer) == cudaErrorInvalidValue);
}

TEST_CASE("kernels refuse host memory, freed memory, and other GPUs' without peer access") {
  const StreamOwner stream;
  std::vector<float> host(4);
  CHECK(error_of([&] { launch_fill(host.data(), 1.0F, 4, stream); }) == cudaErrorIllegalAddress);
  float* freed = nullptr;
  ZERO1_CUDA_CHECK(cudaMalloc(&freed, 16));
  ZERO1_CUDA_CHECK(cudaFree(freed));
  CHECK(error_of([&] { launch_fill(freed, 1.0F, 4, stream); }) == cudaErrorIllegalAddress);
  const GpuArray<float> own(4);
  float* remote = nullptr;
  {
    const OnDevice device(1);
    ZERO1_CUDA_CHECK(cudaMalloc(&remote, 16));
  }
  CHECK(error_of([&] { launch_fill(remote, 1.0F, 4, stream); }) == cudaErrorIllegalAddress);
#if ZERO1_EMULATION_CHECKS_STRUCTURES
  CHECK(error_of([&] { launch_copy({remote, own.data(), 4}, stream); }) == cudaErrorIllegalAddress);
#endif
  ZERO1_CUDA_CHECK(cudaDeviceEnablePeerAccess(1, 0));
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  launch_fill(remote, 7.0F, 4, stream);
  launch_copy({remote, own.data(), 4}, stream);
  CHECK(own.read(stream)[3] == 7.0F);
  ZERO1_CUDA_CHECK(cudaDeviceDisablePeerAccess(1));
  ZERO1_CUDA_CHECK(cudaFree(remote));
  CHECK(error_of([&] { launch_fill(nullptr, 1.0F, 0, stream); }) == cudaErrorInvalidConfiguration);
}

TEST_CASE("peer access can be impossible") {
  cuda_emulation::set_peer_access_possible(false);
  int can = -1;
  ZERO1_CUDA_CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 0);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
  cuda_emulation::set_peer_access_possible(true);
}

TEST_CASE("launches are refused on another GPU's stream, and with too much of anything") {
  const StreamOwner stream;
  const GpuArray<float> data(1);
  CHECK(error_of([&] { launch_tree_sum(data.data(), data.data(), 1, 2048, false, stream); }) ==
        cudaErrorInvalidConfiguration);
  const OnDevice device(1);
  CHECK(error_of([&] { launch_fill(data.data(), 1.0F, 1, stream); }) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("copies check direction and extent at both ends") {
  const StreamOwner stream;
  const GpuArray<float> data(4);
  std::vector<float> host(4);
  const auto copy = [&](void* dst, const void* src, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(dst, src, bytes, kind, stream);
  };
  CHECK(copy(data.data(), host.data(), 16, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(copy(data.data(), data.data(), 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(host.data(), host.data(), 16, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(data.data(), host.data(), 17, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(data.data() + 1, host.data(), 16, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(host.data(), 0, 16, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(data.data(), 0, 17, stream) == cudaErrorInvalidValue);
  CHECK(copy(data.data(), host.data(), 16, cudaMemcpyDefault) == cudaSuccess);
}

TEST_CASE("copies between GPUs, of rows, and of pageable memory that changes after the call") {
  const StreamOwner stream;
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const GpuArray<float> here(6);
  float* there = nullptr;
  {
    const OnDevice device(1);
    ZERO1_CUDA_CHECK(cudaMalloc(&there, 6 * sizeof(float)));
  }
  ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(10ms); }, nullptr));
  ZERO1_CUDA_CHECK(cudaMemcpyAsync(there, values.data(), 24, cudaMemcpyHostToDevice, stream));
  std::fill(values.begin(), values.end(), -1.0F);
  CHECK(cudaMemcpyPeerAsync(here.data(), 1, there, 1, 24, stream) == cudaErrorInvalidValue);
  ZERO1_CUDA_CHECK(cudaMemcpyPeerAsync(here.data(), 0, there, 1, 24, stream));
  CHECK(here.read(stream) == std::vector<float>{1, 2, 3, 4, 5, 6});
  const GpuArray<float> column(3, {0, 0, 0}, stream);
  ZERO1_CUDA_CHECK(
      cudaMemcpy2DAsync(column.data(), 4, here.data() + 1, 8, 4, 3, cudaMemcpyDeviceToDevice, stream));
  CHECK(column.read(stream) == std::vector<float>{2, 4, 6});
  ZERO1_CUDA_CHECK(cudaFree(there));
}

TEST_CASE("stream-ordered memory lives until its stream frees it") {
  const StreamOwner stream;
  float* data = nullptr;
  ZERO1_CUDA_CHECK(cudaMallocAsync(&data, 4 * sizeof(float), stream));
  const std::size_t live = cuda_emulation::live_allocations();
  ZERO1_CUDA_CHECK(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(10ms); }, nullptr));
  launch_fill(data, 2.0F, 4, stream);
  ZERO1_CUDA_CHECK(cudaFreeAsync(data, stream));
  CHECK(cuda_emulation::live_allocations() == live);
  stream.synchronize();
  CHECK(cuda_emulation::live_allocations() == live - 1);
}

TEST_CASE("pointers tell what they are") {
  const GpuArray<float> data(4);
  float* pinned = nullptr;
  ZERO1_CUDA_CHECK(cudaMallocHost(&pinned, 16));
  float host = 0;
  cudaPointerAttributes attributes{};
  ZERO1_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data.data() + 3));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  ZERO1_CUDA_CHECK(cudaPointerGetAttributes(&attributes, pinned));
  CHECK(attributes.type == cudaMemoryTypeHost);
  ZERO1_CUDA_CHECK(cudaPointerGetAttributes(&attributes, &host));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  ZERO1_CUDA_CHECK(cudaFreeHost(pinned));
}
