#include "runtime/heap.h"

#include <sys/mman.h>

#include <cstring>
#include <string>

#include "runtime/errors.h"
#include "runtime/tsan.h"
#include "tests/support/sanitizers.h"
#if ZERO1_UNDER_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace cuda_emulation {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t address_space = std::size_t{32} << 30;
constexpr unsigned char fresh_byte = 0xFF;  // a NaN as fp32, fp64, bf16 and fp16
constexpr unsigned char slack_byte = 0xCB;

std::size_t pages(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

void poison([[maybe_unused]] std::uintptr_t start, [[maybe_unused]] std::size_t bytes) {
#if ZERO1_UNDER_ASAN
  __asan_poison_memory_region(reinterpret_cast<void*>(start), bytes);
#endif
}

void unpoison([[maybe_unused]] std::uintptr_t start, [[maybe_unused]] std::size_t bytes) {
#if ZERO1_UNDER_ASAN
  __asan_unpoison_memory_region(reinterpret_cast<void*>(start), bytes);
#endif
}

void* map(void* where, std::size_t bytes, int protection, int fixed) {
  void* const mapped =
      ::mmap(where, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (mapped == MAP_FAILED) fatal("cannot map " + std::to_string(bytes) + " bytes for a GPU's memory");
  return mapped;
}

}  // namespace

void Heap::set_capacity(std::size_t bytes) {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

void Heap::reserve() {
  if (base_ != 0) return;
  base_ = reinterpret_cast<std::uintptr_t>(map(nullptr, address_space, PROT_NONE, 0));
  cursor_ = base_;
}

std::optional<std::uintptr_t> Heap::find_room(std::size_t bytes) const {
  // From the cursor on, then once more from the start.
  for (const std::uintptr_t from : {cursor_, base_}) {
    std::uintptr_t start = from;
    for (auto next = live_.lower_bound(start); next != live_.end() && next->first < start + bytes; ++next) {
      start = next->first + pages(next->second) + page;
    }
    if (start + bytes <= base_ + address_space) return start;
  }
  return std::nullopt;
}

void* Heap::allocate(std::size_t bytes) {
  void* pointer = nullptr;
  {
    const Quiet quiet;
    const std::lock_guard lock(mutex_);
    if (bytes > capacity_ || used_ > capacity_ - bytes) return nullptr;
    reserve();
    const auto start = find_room(pages(bytes) + page);
    if (!start) return nullptr;
    pointer = reinterpret_cast<void*>(*start);
    cursor_ = *start + pages(bytes) + page;
    live_.emplace(*start, bytes);
    used_ += bytes;
  }
  // Seen by TSan, which forgets what was known of the addresses.
  map(pointer, pages(bytes), PROT_READ | PROT_WRITE, MAP_FIXED);
  const Quiet quiet;
  const auto start = reinterpret_cast<std::uintptr_t>(pointer);
  unpoison(start, pages(bytes));
  std::memset(pointer, fresh_byte, bytes);
  std::memset(static_cast<char*>(pointer) + bytes, slack_byte, pages(bytes) - bytes);
  poison(start + bytes, pages(bytes) - bytes);
  return pointer;
}

bool Heap::free(void* pointer) {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<std::uintptr_t>(pointer);
  const auto found = live_.find(start);
  if (found == live_.end()) return false;
  const std::size_t bytes = found->second;
  check_slack(start, bytes);
  map(pointer, pages(bytes), PROT_NONE, MAP_FIXED);
  poison(start, pages(bytes));
  live_.erase(found);
  used_ -= bytes;
  return true;
}

void Heap::check_slack(std::uintptr_t start, std::size_t bytes) const {
  unpoison(start + bytes, pages(bytes) - bytes);
  for (std::size_t i = bytes; i < pages(bytes); ++i) {
    if (reinterpret_cast<const unsigned char*>(start)[i] != slack_byte) {
      fatal("GPU " + std::to_string(device_) + ": byte " + std::to_string(i - bytes) + " behind the " +
            std::to_string(bytes) + " bytes allocated at " + hex(reinterpret_cast<const void*>(start)) +
            " was written: a kernel or copy out of bounds. AddressSanitizer shows where.");
    }
  }
}

bool Heap::contains(const void* pointer) const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return base_ != 0 && address >= base_ && address < base_ + address_space;
}

std::optional<Heap::Block> Heap::block_of(const void* pointer) const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto next = live_.upper_bound(address);
  if (next == live_.begin()) return std::nullopt;
  --next;
  // The end counts too: an empty slice may start there.
  if (address > next->first + next->second) return std::nullopt;
  return Block{next->first, next->second};
}

std::size_t Heap::used() const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  return used_;
}

std::size_t Heap::capacity() const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  return capacity_;
}

std::size_t Heap::live_allocations() const {
  const Quiet quiet;
  const std::lock_guard lock(mutex_);
  return live_.size();
}

}  // namespace cuda_emulation
