// The runtime API's functions about devices, versions and peer access.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/errors.h"
#include "runtime/machine.h"

using namespace cuda_emulation;

namespace {

constexpr int greatest_priority = -5;

cudaError_t check_device(int device) {
  if (machine().device_count() == 0) return fail(cudaErrorInsufficientDriver);
  return device < 0 || device >= machine().device_count() ? fail(cudaErrorInvalidDevice) : cudaSuccess;
}

}  // namespace

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().device_count() == 0 ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().device_count();
  return *count == 0 ? fail(cudaErrorInsufficientDriver) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = check_device(device)) return error;
  set_worker_device(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (const cudaError_t error = check_device(current_device())) return error;
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = check_device(current_device())) return error;
  for (const Ref<Queue>& queue : machine().queues(current_device())) queue->wait(queue->submitted());
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = check_device(device)) return error;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Emulated GPU %d", device);
  properties->totalGlobalMem = machine().heap(device).capacity();
  properties->sharedMemPerBlock = std::size_t{48} << 10;
  properties->sharedMemPerBlockOptin = std::size_t{227} << 10;
  properties->sharedMemPerMultiprocessor = std::size_t{228} << 10;
  properties->regsPerBlock = 65536;
  properties->warpSize = warpSize;
  properties->maxThreadsPerBlock = 1024;
  for (int i = 0; i < 3; ++i) {
    properties->maxThreadsDim[i] = i == 2 ? 64 : 1024;
    properties->maxGridSize[i] = i == 0 ? 0x7FFFFFFF : 65535;
  }
  properties->major = machine().compute_capability(device) / 10;
  properties->minor = machine().compute_capability(device) % 10;
  properties->multiProcessorCount = 2;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->concurrentKernels = 1;
  properties->asyncEngineCount = 1;
  properties->pciBusID = device;
  properties->unifiedAddressing = 1;
  properties->memoryBusWidth = 64;
  properties->streamPrioritiesSupported = 1;
  properties->memoryPoolsSupported = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrWarpSize: *value = properties.warpSize; return cudaSuccess;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate: *value = 1'000'000; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth: *value = properties.memoryBusWidth; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      return cudaSuccess;
    case cudaDevAttrAsyncEngineCount: *value = properties.asyncEngineCount; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; return cudaSuccess;
  }
  return fail(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* bus_id, int length, int device) {
  if (const cudaError_t error = check_device(device)) return error;
  const int written = std::snprintf(bus_id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return written < length ? cudaSuccess : fail(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = greatest_priority;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  if (const cudaError_t error = check_device(device)) return error;
  if (const cudaError_t error = check_device(peer)) return error;
  *can_access = device != peer && machine().peer_access_possible() ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (const cudaError_t error = check_device(peer)) return error;
  if (flags != 0 || peer == current_device()) return fail(cudaErrorInvalidValue);
  if (!machine().peer_access_possible()) return fail(cudaErrorPeerAccessUnsupported);
  return machine().enable_peer_access(current_device(), peer, true) ? cudaSuccess
                                                                    : fail(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (const cudaError_t error = check_device(peer)) return error;
  return machine().enable_peer_access(current_device(), peer, false) ? cudaSuccess
                                                                     : fail(cudaErrorPeerAccessNotEnabled);
}
