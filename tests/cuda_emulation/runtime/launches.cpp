// What a launch is checked for before it is queued.
#include <cuda_runtime.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "runtime/errors.h"
#include "runtime/machine.h"

namespace cuda_emulation {
namespace {

constexpr std::size_t shared_limit = std::size_t{48} << 10;
constexpr std::size_t shared_limit_optin = std::size_t{227} << 10;

/// Kernels that asked for more dynamic shared memory than every kernel may have.
struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, std::size_t> of;
};

SharedLimits& shared_limits() {
  static SharedLimits& limits = *new SharedLimits;
  return limits;
}

std::size_t shared_limit_of(const void* kernel) {
  const Quiet quiet;
  SharedLimits& limits = shared_limits();
  const std::lock_guard lock(limits.mutex);
  const auto found = limits.of.find(kernel);
  return found == limits.of.end() ? shared_limit : found->second;
}

bool supported(const cudaLaunchAttribute& attribute) {
  return attribute.id == cudaLaunchAttributeIgnore || attribute.id == cudaLaunchAttributePriority ||
         (attribute.id == cudaLaunchAttributeCooperative && attribute.val.cooperative == 0);
}

cudaError_t check_device_pointer(const Place& place, const void* pointer, int argument, int device) {
  const std::string what = "kernel argument " + std::to_string(argument + 1) + " (" + hex(pointer) + ") ";
  if (!place.live) {
    return fail(cudaErrorIllegalAddress, what + "points into memory of GPU " + std::to_string(place.device) +
                                             " that was freed or never allocated");
  }
  if (!machine().can_reach(device, place.device)) {
    return fail(cudaErrorIllegalAddress, what + "is memory of GPU " + std::to_string(place.device) +
                                             ", launched on GPU " + std::to_string(device) +
                                             " without cudaDeviceEnablePeerAccess");
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t allow_dynamic_shared(const void* kernel, int bytes) {
  if (bytes < 0 || static_cast<std::size_t>(bytes) > shared_limit_optin) return fail(cudaErrorInvalidValue);
  const Quiet quiet;
  SharedLimits& limits = shared_limits();
  const std::lock_guard lock(limits.mutex);
  limits.of[kernel] = std::max(static_cast<std::size_t>(bytes), shared_limit);
  return cudaSuccess;
}

cudaError_t kernel_attributes(cudaFuncAttributes* attributes, const void* kernel) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(shared_limit_of(kernel));
  return cudaSuccess;
}

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  if (machine().device_count() == 0) return fail(cudaErrorInsufficientDriver);
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const std::string shape = "grid " + std::to_string(grid.x) + "x" + std::to_string(grid.y) + "x" +
                            std::to_string(grid.z) + " of blocks " + std::to_string(block.x) + "x" +
                            std::to_string(block.y) + "x" + std::to_string(block.z);
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535) {
    return fail(cudaErrorInvalidConfiguration, "launch of a " + shape);
  }
  if (config.dynamicSmemBytes > shared_limit_of(kernel)) {
    return fail(cudaErrorInvalidValue, "launch with " + std::to_string(config.dynamicSmemBytes) +
                                           " bytes of shared memory, allowed are " +
                                           std::to_string(shared_limit_of(kernel)) +
                                           " (cudaFuncSetAttribute)");
  }
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (!supported(config.attrs[i])) return fail(cudaErrorNotSupported, "a launch attribute is not emulated");
  }
  const Ref<Queue> queue = queue_of(config.stream);
  if (queue->device() != current_device()) {
    return fail(cudaErrorInvalidResourceHandle, "launch on a stream of GPU " +
                                                    std::to_string(queue->device()) + " while GPU " +
                                                    std::to_string(current_device()) + " is current");
  }
  return cudaSuccess;
}

cudaError_t check_pointer_argument(const void* pointer, int argument, cudaStream_t stream) {
  if (pointer == nullptr) return cudaSuccess;
  const Place place = machine().locate(pointer);
  switch (place.kind) {
    case Place::Kind::pinned: return cudaSuccess;
    case Place::Kind::device:
      return check_device_pointer(place, pointer, argument, queue_of(stream)->device());
    case Place::Kind::pageable: break;
  }
  return fail(cudaErrorIllegalAddress,
              "kernel argument " + std::to_string(argument + 1) + " (" + hex(pointer) + ") is host memory");
}

cudaError_t check_struct_argument(const void* object, std::size_t bytes, int argument, cudaStream_t stream) {
  for (std::size_t offset = 0; offset + sizeof(void*) <= bytes; offset += sizeof(void*)) {
    void* word = nullptr;
    std::memcpy(&word, static_cast<const char*>(object) + offset, sizeof word);
    const Place place = machine().locate(word);
    // A word of padding may look like an address; in live memory it certainly is one.
    if (place.kind != Place::Kind::device || !place.live) continue;
    if (const auto error = check_device_pointer(place, word, argument, queue_of(stream)->device()))
      return error;
  }
  return cudaSuccess;
}

cudaError_t submit(cudaStream_t stream, Operation* operation) {
  submit_in_order(queue_of(stream), operation);
  return cudaSuccess;
}

}  // namespace cuda_emulation
