// Where the CUDA device's memory comes from.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "core/device/device.h"

namespace zero1::cuda {

/// One rank's memory on one GPU. Freed blocks are kept and given out again, since cudaMalloc and
/// cudaFree stop the GPU. A block that is freed may still be used by work that the compute stream has
/// queued: whoever gets it next uses it on that stream, too, hence later. Thread-safe.
class CudaMemory {
 public:
  /// `rank` is named when there is no memory; -1: nobody.
  CudaMemory(int ordinal, int rank) : ordinal_(ordinal), rank_(rank) {}
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory();

  /// When the GPU has no memory left, kept blocks are given back and the GPU is asked once more; then
  /// throws InputError that names bytes asked, bytes free, bytes of the GPU, the rank, and `purpose`.
  void* allocate(std::int64_t bytes, std::string_view purpose);
  void free(void* data) noexcept;

  std::int64_t kept_bytes() const;
  int rank() const { return rank_; }

 private:
  void* reuse(std::int64_t size);
  void* fresh(std::int64_t size, std::int64_t bytes, std::string_view purpose);
  void give_back_kept() noexcept;

  [[noreturn]] void out_of_memory(std::int64_t bytes, std::string_view purpose) const;

  int ordinal_;
  int rank_;
  mutable std::mutex mutex_;
  std::multimap<std::int64_t, void*> kept_;       ///< by size
  std::unordered_map<void*, std::int64_t> live_;  ///< sizes of the blocks given out
  std::int64_t kept_bytes_ = 0;
};

}  // namespace zero1::cuda
