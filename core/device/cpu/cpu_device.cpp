#include "core/device/cpu/cpu_device.h"

#include <cstring>
#include <fstream>
#include <string>

#include "core/base/error.h"
#include "core/device/cpu/cpu_memory.h"
#include "core/device/cpu/cpu_ops.h"
#include "core/device/cpu/cpu_stream.h"

namespace zero1 {

namespace {

using cpu::cpu_stream;

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
  void* allocate_raw(std::int64_t bytes, MemoryKind kind, Reuse reuse) override {
    return memory_.allocate(bytes, kind, reuse);
  }
  void free_raw(void* data, std::int64_t) noexcept override { memory_.free(data); }

 private:
  static void copy(Stream& stream, void* dst, const void* src, std::int64_t bytes) {
    cpu_stream(stream).submit([=] {
      if (bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
    });
  }

  int threads_;
  cpu::CpuMemory memory_;
  cpu::CpuOps ops_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  if (options.threads < 1) {
    throw InputError("a CPU device needs at least 1 thread, not " + std::to_string(options.threads));
  }
  return std::make_unique<CpuDevice>(options);
}

}  // namespace zero1
