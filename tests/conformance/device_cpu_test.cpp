// The device suite on the CPU, with one thread and with several.
#include "core/device/cpu/cpu_device.h"
#include "device_suite.h"
#include "tests/support/sanitizers.h"

namespace zero1::test {

std::vector<Backend> backends() {
  std::vector<Backend> list;
  list.push_back({"cpu, 1 thread", [] { return make_cpu_device({.threads = 1}); }});
  // OpenMP's pool is not known to ThreadSanitizer.
  if (!under_tsan) list.push_back({"cpu, 3 threads", [] { return make_cpu_device({.threads = 3}); }});
  return list;
}

}  // namespace zero1::test
