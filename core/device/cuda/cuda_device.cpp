#include "core/device/cuda/cuda_device.h"

#include <string>

#include "core/base/error.h"
#include "core/device/cuda/cuda_check.h"
#include "core/device/cuda/cuda_ops.h"
#include "core/device/cuda/cuda_stream.h"

namespace zero1 {

namespace {

std::string gpu_description(int ordinal) {
  cudaDeviceProp properties{};
  ZERO1_CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  return "GPU " + std::to_string(ordinal) + " (" + properties.name + ", compute capability " +
         std::to_string(properties.major) + "." + std::to_string(properties.minor) + ", " +
         std::to_string(properties.totalGlobalMem >> 20) + " MiB)";
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaOptions& options)
      : description_(gpu_description(options.ordinal)),
        shared_(std::make_shared<cuda::Shared>(options.ordinal, options.rank)),
        ops_(options.tf32) {}

  std::string description() const override { return description_; }

  std::unique_ptr<Stream> create_stream(StreamKind kind) override {
    return std::make_unique<cuda::QueuedStream>(shared_, kind);
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<cuda::CudaEvent>(shared_); }
  Ops& ops() override { return ops_; }

  void copy_from_host(Stream& stream, TensorView dst, const void* src) override {
    copy(stream, dst.data, src, dst.bytes(), cudaMemcpyHostToDevice);
  }
  void copy_to_host(Stream& stream, void* dst, ConstTensorView src) override {
    copy(stream, dst, src.data, src.bytes(), cudaMemcpyDeviceToHost);
  }

  std::int64_t clock_error_ns() const override { return shared_->stamps.error_ns(); }

 protected:
  void* allocate_raw(std::int64_t bytes, MemoryKind kind, Reuse reuse) override {
    return shared_->memory.allocate(bytes, name(kind), reuse);
  }
  void free_raw(void* data, std::int64_t) noexcept override { shared_->memory.free(data); }

 private:
  static void copy(Stream& stream, void* dst, const void* src, std::int64_t bytes, cudaMemcpyKind kind) {
    const cuda::QueuedStream& ours = cuda::cuda_stream(stream);
    if (bytes == 0) return;
    ours.use_gpu();
    ZERO1_CUDA_CHECK(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(bytes), kind, ours.handle()));
  }

  std::string description_;
  std::shared_ptr<cuda::Shared> shared_;
  cuda::CudaOps ops_;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  const std::string hint = "; use --device cpu";
  if (code == cudaErrorInsufficientDriver) {
    throw InputError("no NVIDIA driver, or one too old for this build" + hint);
  }
  if (code == cudaErrorNoDevice || (code == cudaSuccess && count == 0)) {
    throw InputError("no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES may hide them)" + hint);
  }
  ZERO1_CUDA_CHECK(code);
  return count;
}

std::unique_ptr<Device> make_cuda_device(const CudaOptions& options) {
  const int count = cuda_device_count();
  if (options.ordinal < 0 || options.ordinal >= count) {
    throw InputError("there is no GPU " + std::to_string(options.ordinal) + ": " + std::to_string(count) +
                     (count == 1 ? " is" : " are") + " visible, counted from 0");
  }
  ZERO1_CUDA_CHECK(cudaSetDevice(options.ordinal));
  return std::make_unique<CudaDevice>(options);
}

}  // namespace zero1
