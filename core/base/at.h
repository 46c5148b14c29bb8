// Elements by signed index: positions and counts are signed everywhere else.
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <utility>

namespace zero1 {

/// container[index]; an assertion checks that the index lies inside.
template <class Container, std::integral Index>
constexpr decltype(auto) at(Container& container, Index index) {
  assert(std::cmp_greater_equal(index, 0) && std::cmp_less(index, std::size(container)));
  return container[static_cast<std::size_t>(index)];
}

}  // namespace zero1
