// Tests on real GPUs: skipped, with the reason, where there are not enough.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "core/base/error.h"
#include "core/device/cuda/cuda_device.h"
#include "tests/support/skip.h"

namespace zero1::test {

/// How many GPUs there are, at least `needed`. With fewer the program ends at once, and CTest counts it as
/// skipped.
inline int gpus_or_skip(int needed) {
  try {
    const int count = cuda_device_count();
    if (count >= needed) return count;
    skip(fmt::format("needs {} GPUs, {} visible", needed, count));
  } catch (const InputError& error) {
    skip(fmt::format("no GPU: {}", error.what()));
  }
  std::fflush(stdout);
  std::_Exit(skipped_status);
}

}  // namespace zero1::test
