// A list that only grows, in pieces of equal size: growing copies nothing and wastes one piece at most.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace zero1::viz {

/// Pieces of 2^log2_piece elements of a trivial type.
template <class T, int log2_piece>
class Segments {
 public:
  void push_back(const T& value) {
    if ((size_ & mask) == 0) pieces_.push_back(std::make_unique_for_overwrite<T[]>(piece));
    pieces_.back()[size_ & mask] = value;
    ++size_;
  }
  const T& operator[](std::size_t index) const { return pieces_[index >> log2_piece][index & mask]; }
  const T& back() const { return (*this)[size_ - 1]; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t piece = std::size_t{1} << log2_piece;
  static constexpr std::size_t mask = piece - 1;

  std::vector<std::unique_ptr<T[]>> pieces_;
  std::size_t size_ = 0;
};

}  // namespace zero1::viz
