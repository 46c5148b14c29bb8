// The runtime API's types, with CUDA's names and numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

#define CUDART_VERSION 13000
#define CUDART_CB

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidMemcpyDirection = 21,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorPeerAccessUnsupported = 217,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorPeerAccessNotEnabled = 705,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
  cudaErrorUnknown = 999,
};
using cudaError_t = cudaError;

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeHost = 1,
  cudaMemoryTypeDevice = 2,
  cudaMemoryTypeManaged = 3,
};

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaHostFn_t = void (*)(void* user_data);

inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventBlockingSync = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaEventRecordDefault = 0;
inline constexpr unsigned cudaEventWaitDefault = 0;
inline constexpr unsigned cudaHostAllocDefault = 0;
inline constexpr unsigned cudaHostAllocPortable = 1;
inline constexpr unsigned cudaHostAllocMapped = 2;

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
};

// The vector types that kernels load and store as one access, and their make_ functions.
#define ZERO1_VECTOR2(name, element, align)                 \
  struct alignas(align) name {                              \
    element x, y;                                           \
  };                                                        \
  inline constexpr name make_##name(element x, element y) { \
    return {x, y};                                          \
  }
#define ZERO1_VECTOR4(name, element, align)                                       \
  struct alignas(align) name {                                                    \
    element x, y, z, w;                                                           \
  };                                                                              \
  inline constexpr name make_##name(element x, element y, element z, element w) { \
    return {x, y, z, w};                                                          \
  }
ZERO1_VECTOR2(uchar2, unsigned char, 2)
ZERO1_VECTOR4(uchar4, unsigned char, 4)
ZERO1_VECTOR2(short2, short, 4)
ZERO1_VECTOR4(short4, short, 8)
ZERO1_VECTOR2(ushort2, unsigned short, 4)
ZERO1_VECTOR4(ushort4, unsigned short, 8)
ZERO1_VECTOR2(int2, int, 8)
ZERO1_VECTOR4(int4, int, 16)
ZERO1_VECTOR2(uint2, unsigned, 8)
ZERO1_VECTOR4(uint4, unsigned, 16)
ZERO1_VECTOR2(longlong2, long long, 16)
ZERO1_VECTOR2(ulonglong2, unsigned long long, 16)
ZERO1_VECTOR2(float2, float, 8)
ZERO1_VECTOR4(float4, float, 16)
ZERO1_VECTOR2(double2, double, 16)
#undef ZERO1_VECTOR2
#undef ZERO1_VECTOR4

struct float3 {
  float x, y, z;
};
inline constexpr float3 make_float3(float x, float y, float z) {
  return {x, y, z};
}

enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributePriority = 8,
};
union cudaLaunchAttributeValue {
  int cooperative;
  int priority;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrClockRate = 13,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrAsyncEngineCount = 40,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

/// The members of CUDA's structure that this project or a reader may ask for.
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  std::size_t sharedMemPerBlock;
  std::size_t sharedMemPerBlockOptin;
  std::size_t sharedMemPerMultiprocessor;
  int regsPerBlock;
  int warpSize;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int major;
  int minor;
  int multiProcessorCount;
  int maxThreadsPerMultiProcessor;
  int concurrentKernels;
  int asyncEngineCount;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int unifiedAddressing;
  int memoryBusWidth;
  int l2CacheSize;
  int streamPrioritiesSupported;
  int memoryPoolsSupported;
};

struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
  void* devicePointer;
  void* hostPointer;
};

/// What a kernel needs of a GPU: unknown here, so all but the limits are zero.
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;
  std::size_t constSizeBytes;
  std::size_t localSizeBytes;
  int maxThreadsPerBlock;
  int numRegs;
  int ptxVersion;
  int binaryVersion;
  int maxDynamicSharedSizeBytes;
};
