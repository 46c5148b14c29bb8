// Kernel launches: the kernel and its arguments become one operation in a stream's queue.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "types.h"

namespace cuda_emulation {

/// One entry of a stream's queue.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;
  virtual void run() = 0;
};

/// A launch. `run_thread` is the kernel's body for the thread that threadIdx and blockIdx name.
class KernelLaunch : public Operation {
 public:
  KernelLaunch(dim3 grid, dim3 block, std::size_t shared_bytes)
      : grid_(grid), block_(block), shared_bytes_(shared_bytes) {}
  void run() final;
  virtual void run_thread() = 0;

  dim3 grid() const { return grid_; }
  dim3 block() const { return block_; }
  std::size_t shared_bytes() const { return shared_bytes_; }

 private:
  dim3 grid_;
  dim3 block_;
  std::size_t shared_bytes_;
};

template <class... Params>
class KernelCall final : public KernelLaunch {
 public:
  KernelCall(const cudaLaunchConfig_t& config, void (*kernel)(Params...), Params... params)
      : KernelLaunch(config.gridDim, config.blockDim, config.dynamicSmemBytes),
        kernel_(kernel),
        params_(params...) {}
  void run_thread() override { std::apply(kernel_, params_); }

 private:
  void (*kernel_)(Params...);
  std::tuple<Params...> params_;
};

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel);

/// Is the pointer memory that a kernel on the stream's GPU may touch? Prints what it is if not.
cudaError_t check_pointer_argument(const void* pointer, int argument, cudaStream_t stream);

/// The same for every pointer into some GPU's memory that a structure passed by value holds.
cudaError_t check_struct_argument(const void* object, std::size_t bytes, int argument, cudaStream_t stream);

cudaError_t submit(cudaStream_t stream, Operation* operation);

/// What lies in a structure's padding is no pointer, but may look like one. Where the compiler cannot clear
/// it (clang), structures go unchecked.
#if defined(__GNUC__) && !defined(__clang__)
#define ZERO1_EMULATION_CHECKS_STRUCTURES 1
#else
#define ZERO1_EMULATION_CHECKS_STRUCTURES 0
#endif

template <class T>
cudaError_t check_argument(const T& value, int argument, cudaStream_t stream) {
  if constexpr (std::is_pointer_v<T>) {
    return check_pointer_argument(value, argument, stream);
  } else if constexpr (std::is_class_v<T>) {
    static_assert(std::is_trivially_copyable_v<T>, "a kernel's parameters are copied as bytes");
#if ZERO1_EMULATION_CHECKS_STRUCTURES
    T copy = value;
    __builtin_clear_padding(&copy);
    return check_struct_argument(&copy, sizeof copy, argument, stream);
#endif
  }
  return cudaSuccess;
}

}  // namespace cuda_emulation

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  using namespace cuda_emulation;
  static_assert(sizeof...(Params) == sizeof...(Args));
  if (const cudaError_t error = check_launch(*config, reinterpret_cast<const void*>(kernel))) return error;
  const std::tuple<Params...> params(std::forward<Args>(args)...);
  cudaError_t error = cudaSuccess;
  int argument = 0;
  const auto check = [&](const auto& value) {
    if (error == cudaSuccess) error = check_argument(value, argument, config->stream);
    ++argument;
  };
  std::apply([&](const auto&... value) { (check(value), ...); }, params);
  if (error != cudaSuccess) return error;
  return std::apply(
      [&](const auto&... value) {
        return submit(config->stream, new KernelCall<Params...>(*config, kernel, value...));
      },
      params);
}
