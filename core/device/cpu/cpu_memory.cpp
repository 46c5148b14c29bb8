#include "core/device/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <string>

#include "core/base/error.h"

namespace zero1::cpu {

namespace {

constexpr std::int64_t alignment = 256;
constexpr std::int64_t huge_page = std::int64_t{2} << 20;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// The number that follows `key` in a file of the system, or the file's first without a key; -1 when
/// there is none.
std::int64_t number_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  std::int64_t number = -1;
  if (key.empty()) return file >> number ? number : -1;
  while (file >> word) {
    if (word == key) return file >> number ? number : -1;
  }
  return -1;
}

/// What the machine can still give without swapping, and the control group (a container) allows, in
/// bytes; -1 when the system does not say.
std::int64_t available_bytes() {
  const std::int64_t kib = number_in("/proc/meminfo", "MemAvailable:");
  const std::int64_t machine = kib < 0 ? -1 : kib * 1024;
  const std::int64_t limit = number_in("/sys/fs/cgroup/memory.max", "");
  const std::int64_t used = number_in("/sys/fs/cgroup/memory.current", "");
  if (limit < 0 || used < 0) return machine;
  const std::int64_t reclaimable =
      std::max<std::int64_t>(0, number_in("/sys/fs/cgroup/memory.stat", "inactive_file"));
  const std::int64_t group = std::max<std::int64_t>(0, limit - used + reclaimable);
  return machine < 0 ? group : std::min(machine, group);
}

[[noreturn]] void out_of_memory(std::int64_t bytes, std::int64_t free_bytes, MemoryKind kind) {
  const std::string free_text = free_bytes < 0 ? "an unknown number of" : std::to_string(free_bytes);
  throw Error("out of memory: " + std::to_string(bytes) + " bytes asked for " + std::string(name(kind)) +
              ", " + free_text + " bytes free");
}

}  // namespace

CpuMemory::~CpuMemory() {
  trim(-1);
}

void* CpuMemory::allocate(std::int64_t bytes, MemoryKind kind, Reuse reuse) {
  if (bytes < huge_page) {
    void* data = std::aligned_alloc(alignment, static_cast<std::size_t>(rounded_up(bytes, alignment)));
    if (data == nullptr) out_of_memory(bytes, available_bytes(), kind);
    return data;
  }
  const std::int64_t size = rounded_up(bytes, huge_page);
  const std::lock_guard lock(mutex_);
  const bool keepable = reuse == Reuse::in_stream_order;
  void* data = keepable ? take_kept(size) : nullptr;
  if (data == nullptr) {
    if (keepable) trim(std::max(peak_live_bytes_, live_bytes_ + size) / 4 * 5 - live_bytes_ - size);
    data = fresh(size, bytes, kind);
  }
  if (!keepable) return data;
  live_.emplace(data, size);
  live_bytes_ += size;
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
  return data;
}

void CpuMemory::free(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto found = live_.find(data); found != live_.end()) {
    const std::int64_t size = found->second;
    live_.erase(found);
    live_bytes_ -= size;
    try {
      kept_.emplace(size, data);
      kept_bytes_ += size;
      return;
    } catch (const std::bad_alloc&) {  // no room to remember it: give it back
    }
  }
  std::free(data);
}

/// Linux promises memory that it does not have; so the answer is sought before asking.
void* CpuMemory::fresh(std::int64_t size, std::int64_t bytes, MemoryKind kind) {
  std::int64_t free_bytes = available_bytes();
  if (free_bytes >= 0 && size > free_bytes && kept_bytes_ > 0) {
    trim(0);
    free_bytes = available_bytes();
  }
  if (free_bytes >= 0 && size > free_bytes) out_of_memory(bytes, free_bytes, kind);
  void* data = std::aligned_alloc(static_cast<std::size_t>(huge_page), static_cast<std::size_t>(size));
  if (data == nullptr) out_of_memory(bytes, free_bytes, kind);
  madvise(data, static_cast<std::size_t>(size), MADV_HUGEPAGE);  // a wish: failure changes nothing but speed
  return data;
}

void* CpuMemory::take_kept(std::int64_t size) {
  const auto found = kept_.find(size);
  if (found == kept_.end()) return nullptr;
  void* data = found->second;
  kept_.erase(found);
  kept_bytes_ -= size;
  return data;
}

/// Gives kept blocks back, the largest first, until at most `wanted_bytes` are kept.
void CpuMemory::trim(std::int64_t wanted_bytes) {
  while (!kept_.empty() && kept_bytes_ > wanted_bytes) {
    const auto last = std::prev(kept_.end());
    kept_bytes_ -= last->first;
    std::free(last->second);
    kept_.erase(last);
  }
}

}  // namespace zero1::cpu
