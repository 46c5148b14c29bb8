// How much a long test does: a sample where every push waits for it, everything before a release.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace zero1::test {

/// ZERO1_TEST_EFFORT=full, as scripts/test_all sets it: every case of a sweep.
inline bool full_effort() {
  const char* effort = std::getenv("ZERO1_TEST_EFFORT");
  return effort != nullptr && std::string_view(effort) == "full";
}

/// A sweep takes every `full`-th case with full effort, and otherwise every `sample`-th.
inline std::size_t sweep_stride(std::size_t full, std::size_t sample) {
  return full_effort() ? full : sample;
}

}  // namespace zero1::test
