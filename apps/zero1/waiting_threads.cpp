#include "apps/zero1/waiting_threads.h"

#include <unistd.h>

#include <cstdlib>

namespace zero1::app {

void let_waiting_threads_sleep(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 1);  // what it takes by itself when it has more threads than cores
  ::execv("/proc/self/exe", argv);
}

}  // namespace zero1::app
