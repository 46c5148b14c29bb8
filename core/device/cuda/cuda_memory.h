// Where the CUDA device's memory comes from.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "core/device/device.h"

namespace zero1::cuda {

/// One rank's memory on one GPU. Its blocks are of two kinds, which never change places:
///
/// - `in_stream_order`: activations. Work that the compute stream has queued may still use such a block when
///   it is freed. It is kept, since cudaMalloc and cudaFree stop the GPU, and its next owner's work is
///   queued on the same stream, hence runs later.
/// - `when_idle`: all else, which the communication stream, or a peer's, may use. It lives as long as its
///   owner, mostly the run; freeing it waits for the GPU and gives it back to CUDA. Nothing that is queued
///   can meet its next owner, whichever streams either uses.
///
/// Thread-safe.
class CudaMemory {
 public:
  /// `rank` is named when there is no memory; -1: nobody.
  CudaMemory(int ordinal, int rank) : ordinal_(ordinal), rank_(rank) {}
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory();

  /// When the GPU has no memory left, kept blocks are given back and the GPU is asked once more; then
  /// throws InputError that names bytes asked, bytes free, bytes of the GPU, the rank, and `purpose`.
  void* allocate(std::int64_t bytes, std::string_view purpose, Reuse reuse);
  void free(void* data) noexcept;

  std::int64_t kept_bytes() const;
  int rank() const { return rank_; }

 private:
  struct Block {
    std::int64_t size;
    Reuse reuse;
  };

  void* take_kept(std::int64_t size);
  void* fresh(std::int64_t size, std::int64_t bytes, std::string_view purpose);
  bool keep(void* data, std::int64_t size) noexcept;
  void give_back_kept() noexcept;

  [[noreturn]] void out_of_memory(std::int64_t bytes, std::string_view purpose) const;

  int ordinal_;
  int rank_;
  mutable std::mutex mutex_;
  std::multimap<std::int64_t, void*> kept_;  ///< by size
  std::unordered_map<void*, Block> live_;
  std::int64_t kept_bytes_ = 0;
};

}  // namespace zero1::cuda
