// Tests on real GPUs: skipped, with the reason, where there are not enough.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "core/base/error.h"
#include "core/device/cuda/cuda_device.h"

namespace zero1::test {

/// How many GPUs there are, at least `needed`. With fewer the program ends at once, and CTest counts it as
/// skipped.
inline int gpus_or_skip(int needed) {
  try {
    const int count = cuda_device_count();
    if (count >= needed) return count;
    std::printf("[skipped] needs %d GPUs, %d visible\n", needed, count);
  } catch (const InputError& error) {
    std::printf("[skipped] no GPU: %s\n", error.what());
  }
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace zero1::test
