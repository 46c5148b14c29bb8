// Where the CPU device's memory comes from.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>

#include "core/device/device.h"

namespace zero1::cpu {

/// Aligned blocks; large ones on huge pages where the system grants them. Thread-safe.
///
/// Large blocks that are used again in stream order (activations) are kept when they are freed: every step
/// asks for the same sizes again, and fresh pages would be faulted in and cleared each time. What is live and
/// what is kept together never exceed 1.25 times the most that was ever live.
class CpuMemory {
 public:
  CpuMemory() = default;
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;
  ~CpuMemory();

  /// Throws Error that names bytes asked, bytes free and `kind` when there is no memory.
  void* allocate(std::int64_t bytes, MemoryKind kind, Reuse reuse);
  void free(void* data) noexcept;

  std::int64_t kept_bytes() const {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  void* fresh(std::int64_t size, std::int64_t bytes, MemoryKind kind);
  void* take_kept(std::int64_t size);
  void trim(std::int64_t wanted_bytes);

  mutable std::mutex mutex_;
  std::multimap<std::int64_t, void*> kept_;       ///< by size
  std::unordered_map<void*, std::int64_t> live_;  ///< blocks that are kept when freed
  std::int64_t kept_bytes_ = 0, live_bytes_ = 0, peak_live_bytes_ = 0;
};

}  // namespace zero1::cpu
