#include "core/device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/device/cpu/checks.h"
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/cpu_stream.h"

namespace zero1 {

namespace {

using cpu::cpu_stream;

constexpr std::int64_t alignment = 256;
constexpr std::int64_t huge_page = std::int64_t{2} << 20;

/// A number of kB from a "Key:   123 kB" line of /proc/meminfo, in bytes; -1 when it cannot be read.
std::int64_t meminfo_bytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return kib * 1024;
  }
  return -1;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const auto colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuOptions& options) : threads_(options.threads) {}
  ~CpuDevice() override {
    for (auto& [bytes, data] : cache_) std::free(data);
  }

  std::string description() const override {
    return "cpu (" + processor_name() + ", " + std::to_string(threads_) +
           (threads_ == 1 ? " thread)" : " threads)");
  }

  std::unique_ptr<Stream> create_stream(StreamKind kind) override {
    if (kind == StreamKind::compute) return std::make_unique<cpu::InlineStream>(threads_);
    return std::make_unique<cpu::WorkerStream>();
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<cpu::CpuEvent>(); }
  Ops& ops() override { return ops_; }

  void copy_from_host(Stream& stream, TensorView dst, const void* src) override {
    copy(stream, dst.data, src, dst.bytes());
  }
  void copy_to_host(Stream& stream, void* dst, ConstTensorView src) override {
    copy(stream, dst, src.data, src.bytes());
  }

 protected:
  void* allocate_raw(std::int64_t bytes, MemoryKind kind) override;
  void free_raw(void* data, std::int64_t bytes) noexcept override;

 private:
  static void copy(Stream& stream, void* dst, const void* src, std::int64_t bytes) {
    cpu_stream(stream).submit([=] {
      if (bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
    });
  }

  int threads_;
  cpu::CpuOps ops_;

  /// Freed activation blocks by size: every step asks for the same sizes again, and fresh pages of the
  /// operating system would be faulted in and zeroed each time.
  std::mutex cache_mutex_;
  std::multimap<std::int64_t, void*> cache_;
  std::unordered_map<void*, std::int64_t> cacheable_;
};

std::int64_t rounded_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void* CpuDevice::allocate_raw(std::int64_t bytes, MemoryKind kind) {
  const bool large = bytes >= huge_page;
  const std::int64_t size = rounded_up(bytes, large ? huge_page : alignment);
  const std::lock_guard lock(cache_mutex_);
  if (large && kind == MemoryKind::activations) {
    if (const auto found = cache_.find(size); found != cache_.end()) {
      void* data = found->second;
      cache_.erase(found);
      cacheable_.emplace(data, size);
      return data;
    }
  }
  const std::int64_t free_bytes = large ? meminfo_bytes("MemAvailable:") : -1;
  void* data = nullptr;
  if (free_bytes < 0 || size <= free_bytes) {
    data = std::aligned_alloc(static_cast<std::size_t>(large ? huge_page : alignment),
                              static_cast<std::size_t>(size));
  }
  if (data == nullptr) {
    throw Error("out of memory: " + std::to_string(bytes) + " bytes asked for " + std::string(name(kind)) +
                ", " + std::to_string(free_bytes) + " bytes free");
  }
  if (large) madvise(data, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  if (large && kind == MemoryKind::activations) cacheable_.emplace(data, size);
  return data;
}

void CpuDevice::free_raw(void* data, std::int64_t) noexcept {
  const std::lock_guard lock(cache_mutex_);
  if (const auto found = cacheable_.find(data); found != cacheable_.end()) {
    try {
      cache_.emplace(found->second, data);
      cacheable_.erase(found);
      return;
    } catch (const std::bad_alloc&) {
      cacheable_.erase(found);
    }
  }
  std::free(data);
}

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  if (options.threads < 1) {
    throw InputError("a CPU device needs at least 1 thread, not " + std::to_string(options.threads));
  }
  return std::make_unique<CpuDevice>(options);
}

}  // namespace zero1
