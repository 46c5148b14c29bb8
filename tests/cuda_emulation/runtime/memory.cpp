// The runtime API's functions that own memory.
#include <cuda_runtime.h>

#include <cstdlib>
#include <string>

#include "runtime/errors.h"
#include "runtime/machine.h"

using namespace cuda_emulation;

namespace {

cudaError_t allocate(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return fail(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (machine().device_count() == 0) return fail(cudaErrorInsufficientDriver);
  if (bytes == 0) return cudaSuccess;
  *pointer = machine().heap(current_device()).allocate(bytes);
  return *pointer == nullptr ? fail(cudaErrorMemoryAllocation) : cudaSuccess;
}

/// The GPU whose live allocation starts at `pointer`, or an explained error.
cudaError_t find_owner(const void* pointer, int& device) {
  const Place place = machine().locate(pointer);
  if (place.kind != Place::Kind::device) {
    return fail(cudaErrorInvalidValue, "cudaFree of " + hex(pointer) + ", which is host memory");
  }
  if (!place.live || place.start != reinterpret_cast<std::uintptr_t>(pointer)) {
    return fail(cudaErrorInvalidValue, "cudaFree of " + hex(pointer) +
                                           (place.live ? ", which is inside an allocation"
                                                       : ", which was freed before or never allocated"));
  }
  device = place.device;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes);
}

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  int device = 0;
  if (const cudaError_t error = find_owner(pointer, device)) return error;
  // CUDA may wait for the device or not, and promises no order to the host's own accesses by it.
  if (!machine().delays().on()) {
    for (const Ref<Queue>& queue : machine().queues(device)) queue->wait_quietly(queue->submitted());
  }
  machine().heap(device).free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t) {
  return allocate(pointer, bytes);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (pointer == nullptr) return cudaSuccess;
  int device = 0;
  if (const cudaError_t error = find_owner(pointer, device)) return error;
  submit_in_order(queue_of(stream), [pointer, device] {
    if (!machine().heap(device).free(pointer)) {
      explain("cudaFreeAsync of " + hex(pointer) + ", which was freed before the stream got there");
    }
  });
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (pointer == nullptr) return fail(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (machine().device_count() == 0) return fail(cudaErrorInsufficientDriver);
  if (bytes == 0) return cudaSuccess;
  *pointer = ::operator new (bytes, std::align_val_t{256}, std::nothrow);
  if (*pointer == nullptr) return fail(cudaErrorMemoryAllocation);
  machine().add_pinned(*pointer, bytes);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(pointer, bytes, flags);
}

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (!machine().remove_pinned(pointer)) {
    return fail(cudaErrorInvalidValue,
                "cudaFreeHost of " + hex(pointer) + ", which cudaMallocHost did not give");
  }
  ::operator delete (pointer, std::align_val_t{256});
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (machine().device_count() == 0) return fail(cudaErrorInsufficientDriver);
  const Heap& heap = machine().heap(current_device());
  const std::size_t total = heap.capacity();
  const std::size_t used = heap.used();
  *total_bytes = total;
  *free_bytes = used < total ? total - used : 0;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const Place place = machine().locate(pointer);
  void* const address = const_cast<void*>(pointer);
  if (place.kind == Place::Kind::device && place.live) {
    *attributes = {cudaMemoryTypeDevice, place.device, address, nullptr};
  } else if (place.kind == Place::Kind::pinned) {
    *attributes = {cudaMemoryTypeHost, current_device(), address, address};
  } else {
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, address};
  }
  return cudaSuccess;
}
