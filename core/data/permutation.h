// Random orders of [0, n) that are computed, not stored.
#pragma once

#include <cstdint>

namespace zero1 {

/// A bijection of [0, count) onto itself, a function of (count, key): a Feistel network permutes the next
/// power of four, and a number that leaves [0, count) is permuted again until it comes back ("cycle
/// walking", Black and Rogaway 2002). Fewer than four rounds through it on average.
class Permutation {
 public:
  Permutation(std::int64_t count, std::uint64_t key);  ///< count >= 1

  std::int64_t operator()(std::int64_t index) const;  ///< 0 <= index < count

 private:
  std::uint64_t encrypt(std::uint64_t value) const;

  std::uint64_t count_;
  std::uint64_t key_;
  int half_bits_ = 1;
};

}  // namespace zero1
