#include "core/device/device.h"

#include <cassert>
#include <utility>

#include "core/base/error.h"

namespace zero1 {

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::parameters: return "parameters";
    case MemoryKind::gradients: return "gradients";
    case MemoryKind::optimizer: return "optimizer";
    case MemoryKind::activations: return "activations";
    case MemoryKind::communication: return "communication";
    case MemoryKind::other: return "other";
  }
  return "unknown";
}

std::string_view name(StreamKind kind) {
  return kind == StreamKind::compute ? "compute" : "communication";
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      kind_(other.kind_) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) device_->release(data_, bytes_, kind_);
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    kind_ = other.kind_;
  }
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_, bytes_, kind_);
}

DeviceMemory Device::allocate(std::int64_t bytes, MemoryKind kind, Reuse reuse) {
  if (bytes < 0) {
    throw Error("cannot allocate " + std::to_string(bytes) + " bytes for " + std::string(name(kind)) +
                ": the size overflowed or is negative");
  }
  if (bytes == 0) return {*this, nullptr, 0, kind};
  void* data = allocate_raw(bytes, kind, reuse);
  const std::int64_t now = allocated_[index(kind)].fetch_add(bytes) + bytes;
  std::int64_t peak = peak_[index(kind)].load();
  while (peak < now && !peak_[index(kind)].compare_exchange_weak(peak, now)) {
  }
  return {*this, data, bytes, kind};
}

void Device::release(void* data, std::int64_t bytes, MemoryKind kind) noexcept {
  free_raw(data, bytes);
  allocated_[index(kind)].fetch_sub(bytes);
}

}  // namespace zero1
