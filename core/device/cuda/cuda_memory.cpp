#include "core/device/cuda/cuda_memory.h"

#include <cuda_runtime.h>

#include <new>
#include <string>

#include "core/base/error.h"
#include "core/device/cuda/cuda_check.h"

namespace zero1::cuda {

namespace {

constexpr std::int64_t small_unit = 512;                    // what cudaMalloc aligns to
constexpr std::int64_t large_unit = std::int64_t{2} << 20;  // a page of the GPU

/// Sizes fall into few classes, so that blocks fit again: below a page in steps of 512 bytes, above it
/// in pages.
std::int64_t block_size(std::int64_t bytes) {
  const std::int64_t unit = bytes < large_unit ? small_unit : large_unit;
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

CudaMemory::~CudaMemory() {
  if (!kept_.empty() && cudaSetDevice(ordinal_) == cudaSuccess) give_back_kept();
}

void* CudaMemory::allocate(std::int64_t bytes, std::string_view purpose, Reuse reuse) {
  const std::int64_t size = block_size(bytes);
  const std::lock_guard lock(mutex_);
  if (reuse == Reuse::in_stream_order) {
    if (void* data = take_kept(size)) return data;
  }
  void* data = fresh(size, bytes, purpose);
  live_.emplace(data, Block{size, reuse});
  return data;
}

void CudaMemory::free(void* data) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(data);
    if (found == live_.end()) return;
    const Block block = found->second;
    live_.erase(found);
    if (block.reuse == Reuse::in_stream_order && keep(data, block.size)) return;
  }
  // cudaFree may or may not wait for the work that uses the memory: the GPU does not say.
  cudaSetDevice(ordinal_);
  cudaDeviceSynchronize();
  cudaFree(data);
}

/// False where there is no room to remember it.
bool CudaMemory::keep(void* data, std::int64_t size) noexcept {
  try {
    kept_.emplace(size, data);
  } catch (const std::bad_alloc&) {
    return false;
  }
  kept_bytes_ += size;
  return true;
}

std::int64_t CudaMemory::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

/// The smallest kept block that holds `size` bytes and wastes at most an eighth of them.
void* CudaMemory::take_kept(std::int64_t size) {
  const auto found = kept_.lower_bound(size);
  if (found == kept_.end() || found->first > size + size / 8) return nullptr;
  void* data = found->second;
  live_.emplace(data, Block{found->first, Reuse::in_stream_order});
  kept_bytes_ -= found->first;
  kept_.erase(found);
  return data;
}

void* CudaMemory::fresh(std::int64_t size, std::int64_t bytes, std::string_view purpose) {
  ZERO1_CUDA_CHECK(cudaSetDevice(ordinal_));
  for (const bool last_try : {false, true}) {
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, static_cast<std::size_t>(size));
    if (code == cudaSuccess) return data;
    cudaGetLastError();  // the failure is handled here: later calls must not report it
    if (code != cudaErrorMemoryAllocation) throw CudaError(code, "cudaMalloc", __FILE__, __LINE__);
    if (last_try || kept_.empty()) break;
    give_back_kept();
  }
  out_of_memory(bytes, purpose);
}

void CudaMemory::out_of_memory(std::int64_t bytes, std::string_view purpose) const {
  std::size_t free_bytes = 0, total_bytes = 0;
  ZERO1_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  throw InputError((rank_ < 0 ? std::string() : "rank " + std::to_string(rank_) + ": ") +
                   "out of memory on GPU " + std::to_string(ordinal_) + ": " + std::to_string(bytes) +
                   " bytes asked for " + std::string(purpose) + ", " + std::to_string(free_bytes) +
                   " bytes free of " + std::to_string(total_bytes) +
                   "; try a smaller --micro-batch-size, a smaller model or more GPUs");
}

void CudaMemory::give_back_kept() noexcept {
  cudaDeviceSynchronize();  // kept blocks may still be in use by queued work
  for (const auto& [size, data] : kept_) cudaFree(data);
  kept_.clear();
  kept_bytes_ = 0;
}

}  // namespace zero1::cuda
