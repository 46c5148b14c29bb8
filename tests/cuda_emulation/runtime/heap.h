// One GPU's memory: a range of addresses of its own, so that every pointer tells whose it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace cuda_emulation {

/// Allocations start on a page and are followed by an unmapped one; the bytes up to the page's end are
/// poisoned under AddressSanitizer, and checked when the memory is freed. Freed memory is unmapped, and its
/// addresses come back as late as possible. Fresh memory is full of NaNs.
class Heap {
 public:
  struct Block {
    std::uintptr_t start;
    std::size_t bytes;
  };

  explicit Heap(int device) : device_(device) {}

  void set_capacity(std::size_t bytes);

  /// Null when there is not enough.
  void* allocate(std::size_t bytes);

  /// False if `pointer` is not the start of a live allocation. Ends the program if a kernel wrote behind it.
  bool free(void* pointer);

  bool contains(const void* pointer) const;  ///< is it an address of this GPU, live or not?
  std::optional<Block> block_of(const void* pointer) const;

  std::size_t used() const;
  std::size_t capacity() const;
  std::size_t live_allocations() const;

 private:
  void reserve();
  std::optional<std::uintptr_t> find_room(std::size_t bytes) const;
  void check_slack(std::uintptr_t start, std::size_t bytes) const;

  const int device_;
  mutable std::mutex mutex_;
  std::uintptr_t base_ = 0;
  std::uintptr_t cursor_ = 0;  ///< where the search for room starts
  std::map<std::uintptr_t, std::size_t> live_;
  std::size_t used_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cuda_emulation
