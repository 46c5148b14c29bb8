// What the CPU keeps of freed memory.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu/cpu_memory.h"

namespace zero1::cpu {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

TEST_CASE("a freed block serves the next request of its size where both are used in stream order") {
  CpuMemory memory;
  void* first = memory.allocate(5 * mib, MemoryKind::activations, Reuse::in_stream_order);
  std::memset(first, 1, 5 * mib);
  memory.free(first);
  CHECK(memory.kept_bytes() == 6 * mib);  // in whole huge pages
  void* other = memory.allocate(5 * mib, MemoryKind::activations, Reuse::when_idle);
  CHECK(other != first);
  void* second = memory.allocate(6 * mib, MemoryKind::activations, Reuse::in_stream_order);
  CHECK(second == first);
  CHECK(memory.kept_bytes() == 0);
  memory.free(second);
  memory.free(other);
  CHECK(memory.kept_bytes() == 6 * mib);
}

TEST_CASE("live and kept blocks together stay within 1.25 times the most that was live") {
  CpuMemory memory;
  std::int64_t peak = 0;
  for (std::int64_t round = 1; round <= 20; ++round) {
    std::vector<void*> blocks;
    std::int64_t live = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t bytes = 2 * mib * (1 + (round * 7 + i * 3) % 11);
      blocks.push_back(memory.allocate(bytes, MemoryKind::activations, Reuse::in_stream_order));
      live += bytes;
      peak = std::max(peak, live);
      CHECK(memory.kept_bytes() + live <= peak * 5 / 4);
    }
    for (void* block : blocks) memory.free(block);
    CHECK(memory.kept_bytes() <= peak * 5 / 4);
  }
  CHECK(memory.kept_bytes() > 0);
}

TEST_CASE("small blocks are not kept") {
  CpuMemory memory;
  void* data = memory.allocate(100, MemoryKind::activations, Reuse::in_stream_order);
  memory.free(data);
  CHECK(memory.kept_bytes() == 0);
}

}  // namespace
}  // namespace zero1::cpu
