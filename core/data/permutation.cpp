#include "core/data/permutation.h"

#include <cassert>

#include "core/base/random.h"

namespace zero1 {

Permutation::Permutation(std::int64_t count, std::uint64_t key)
    : count_(static_cast<std::uint64_t>(count)), key_(key) {
  assert(count >= 1);
  while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < count_) ++half_bits_;
}

std::int64_t Permutation::operator()(std::int64_t index) const {
  auto value = static_cast<std::uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= count_);
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  constexpr std::uint64_t rounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    // Whatever is added to the left half, the round can be undone: that makes the whole a bijection.
    const std::uint64_t mixed = mix64(mix64(key_ + round) ^ right) & mask;
    const std::uint64_t next_right = left ^ mixed;
    left = right;
    right = next_right;
  }
  return (left << half_bits_) | right;
}

}  // namespace zero1
