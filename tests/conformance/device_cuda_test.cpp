// The device suite on every visible GPU. Without one it is skipped, and says why.
#include "device_suite.h"
#include "tests/support/skip.h"

#if ZERO1_HAVE_CUDA
#include "core/device/cuda/cuda_device.h"
#endif

namespace zero1::test {

#if ZERO1_HAVE_CUDA
std::vector<Backend> backends() {
  std::vector<Backend> list;
  try {
    const int count = cuda_device_count();
    for (int gpu = 0; gpu < count; ++gpu) {
      list.push_back({"GPU " + std::to_string(gpu), [gpu] { return make_cuda_device({.ordinal = gpu}); }});
    }
  } catch (const InputError& error) {
    skip(fmt::format("no GPU: {}", error.what()));
  }
  return list;
}
#else
std::vector<Backend> backends() {
  skip("this build has no CUDA");
  return {};
}
#endif

}  // namespace zero1::test
