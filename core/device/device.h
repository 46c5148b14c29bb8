// What the pipeline needs of a machine: memory, streams, events, and the operations in ops.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/device/ops.h"
#include "core/device/stream.h"
#include "core/device/tensor_view.h"

namespace zero1 {

/// What an allocation is for; memory reports are by this kind.
enum class MemoryKind : std::uint8_t { parameters, gradients, optimizer, activations, communication, other };
inline constexpr int memory_kind_count = 6;

std::string_view name(MemoryKind kind);

/// When a freed block may be given out again.
enum class Reuse : std::uint8_t {
  when_idle,        ///< when no queued work uses it any more: any stream may use the block
  in_stream_order,  ///< at once: such a block is used by the compute stream alone, whose queued work may
                    ///< still use it when it is freed
};

class Device;

/// Owns one allocation of a device, aligned to at least 256 bytes. Move-only; frees on destruction.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, void* data, std::int64_t bytes, MemoryKind kind)
      : device_(&device), data_(data), bytes_(bytes), kind_(kind) {}
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  /// The whole allocation as elements of `dtype`, or `numel` of them from element `offset_elems` on.
  TensorView view(DType dtype) const { return {data_, dtype, bytes_ / size_bytes(dtype)}; }
  TensorView view(DType dtype, std::int64_t offset_elems, std::int64_t numel) const {
    return view(dtype).slice({offset_elems, offset_elems + numel});
  }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::other;
};

/// One rank's device. Each rank has its own object, also where ranks share the hardware, so that
/// memory is counted per rank. Thread-safe where not said otherwise.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// For messages and summaries: "cpu (AMD EPYC, 2 threads)".
  virtual std::string description() const = 0;

  /// Uninitialised memory. Throws Error naming bytes asked, bytes free and `kind` when there is none.
  /// Zero bytes give an empty owner.
  DeviceMemory allocate(std::int64_t bytes, MemoryKind kind, Reuse reuse = Reuse::when_idle);

  virtual std::unique_ptr<Stream> create_stream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;

  /// The device's operations. They are queued on the stream they are given.
  virtual Ops& ops() = 0;

  /// Copies in stream order between host and device memory of the same dtype. The host side must stay
  /// valid and untouched until the stream has passed the copy.
  virtual void copy_from_host(Stream& stream, TensorView dst, const void* src) = 0;
  virtual void copy_to_host(Stream& stream, void* dst, ConstTensorView src) = 0;

  /// How far the times that this device's streams stamp may be from the host's clock; 0: they are its own.
  virtual std::int64_t clock_error_ns() const { return 0; }

  std::int64_t allocated_bytes(MemoryKind kind) const { return allocated_[index(kind)].load(); }
  std::int64_t peak_bytes(MemoryKind kind) const { return peak_[index(kind)].load(); }

 protected:
  virtual void* allocate_raw(std::int64_t bytes, MemoryKind kind, Reuse reuse) = 0;
  virtual void free_raw(void* data, std::int64_t bytes) noexcept = 0;

 private:
  friend class DeviceMemory;
  static std::size_t index(MemoryKind kind) { return static_cast<std::size_t>(kind); }
  void release(void* data, std::int64_t bytes, MemoryKind kind) noexcept;

  std::array<std::atomic<std::int64_t>, memory_kind_count> allocated_{};
  std::array<std::atomic<std::int64_t>, memory_kind_count> peak_{};
};

}  // namespace zero1
