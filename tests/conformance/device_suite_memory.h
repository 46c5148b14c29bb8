// Allocation, alignment, counters, copies.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "device_harness.h"

namespace zero1::test {

TEST_CASE("memory is aligned to 256 bytes and as large as asked") {
  on_each_backend([](Rig& rig) {
    for (const std::int64_t bytes : {1, 3, 255, 256, 257, 4096, 1 << 20, (2 << 20) + 5, 9 << 20}) {
      const DeviceMemory memory =
          rig.device->allocate(bytes, MemoryKind::activations, Reuse::in_stream_order);
      CHECK(memory.bytes() == bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 256 == 0);
      std::vector<unsigned char> pattern(static_cast<std::size_t>(bytes) / 2 * 2), back(pattern.size());
      for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<unsigned char>(i * 7 + 1);
      const TensorView all{memory.data(), DType::bf16, bytes / 2};
      rig.device->copy_from_host(rig.stream, all, pattern.data());
      rig.device->copy_to_host(rig.stream, back.data(), all);
      rig.stream.synchronize();
      CHECK(back == pattern);
    }
  });
}

TEST_CASE("memory is counted by kind, now and at its peak") {
  on_each_backend([](Rig& rig) {
    Device& device = *rig.device;
    {
      const DeviceMemory a = device.allocate(1000, MemoryKind::gradients);
      DeviceMemory b = device.allocate(500, MemoryKind::gradients);
      const DeviceMemory c = device.allocate(7 << 20, MemoryKind::activations, Reuse::in_stream_order);
      CHECK(device.allocated_bytes(MemoryKind::gradients) == 1500);
      CHECK(device.allocated_bytes(MemoryKind::activations) == 7 << 20);
      CHECK(device.allocated_bytes(MemoryKind::optimizer) == 0);
      const DeviceMemory moved = std::move(b);
      CHECK(moved.bytes() == 500);
      CHECK(b.data() == nullptr);  // NOLINT(bugprone-use-after-move): empty is what moving leaves
      CHECK(device.allocated_bytes(MemoryKind::gradients) == 1500);
      b = device.allocate(20, MemoryKind::gradients);
      b = DeviceMemory();
      CHECK(device.allocated_bytes(MemoryKind::gradients) == 1500);
    }
    CHECK(device.allocated_bytes(MemoryKind::gradients) == 0);
    CHECK(device.peak_bytes(MemoryKind::gradients) == 1520);
    const DeviceMemory again = device.allocate(7 << 20, MemoryKind::activations, Reuse::in_stream_order);
    CHECK(device.allocated_bytes(MemoryKind::activations) == 7 << 20);
    CHECK(device.peak_bytes(MemoryKind::activations) == 7 << 20);
  });
}

TEST_CASE("two live allocations never share memory, also when blocks are used again") {
  on_each_backend([](Rig& rig) {
    constexpr std::int64_t elems = 1 << 20;
    std::vector<DeviceMemory> live;
    for (int round = 0; round < 4; ++round) {
      live.clear();
      for (int i = 0; i < 3; ++i) {
        live.push_back(rig.device->allocate(elems * 4, MemoryKind::activations, Reuse::in_stream_order));
        rig.ops.fill(rig.stream, live.back().view(DType::fp32), static_cast<float>(round * 3 + i));
      }
      for (int i = 0; i < 3; ++i) {
        std::vector<float> values(elems);
        rig.device->copy_to_host(rig.stream, values.data(),
                                 live[static_cast<std::size_t>(i)].view(DType::fp32));
        rig.stream.synchronize();
        CHECK(values == std::vector<float>(elems, static_cast<float>(round * 3 + i)));
      }
    }
  });
}

TEST_CASE("zero bytes give an empty owner") {
  on_each_backend([](Rig& rig) {
    const DeviceMemory memory = rig.device->allocate(0, MemoryKind::other);
    CHECK(memory.bytes() == 0);
    CHECK(memory.view(DType::fp32).empty());
    CHECK(rig.device->allocated_bytes(MemoryKind::other) == 0);
  });
}

TEST_CASE("memory that does not exist is refused with bytes asked, bytes free and kind") {
  on_each_backend([](Rig& rig) {
    std::string message;
    try {
      (void)rig.device->allocate(std::int64_t{1} << 55, MemoryKind::optimizer);
    } catch (const Error& error) {
      message = error.what();
    }
    INFO(message);
    CHECK(message.find("optimizer") != std::string::npos);
    CHECK(message.find("free") != std::string::npos);
    CHECK(message.find("36028797018963968") != std::string::npos);
    CHECK(rig.device->allocated_bytes(MemoryKind::optimizer) == 0);
    CHECK_THROWS_AS((void)rig.device->allocate(-1, MemoryKind::other), Error);
  });
}

TEST_CASE("a device describes itself") {
  on_each_backend([](Rig& rig) { CHECK(!rig.device->description().empty()); });
}

}  // namespace zero1::test
