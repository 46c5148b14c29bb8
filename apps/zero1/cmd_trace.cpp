#include "apps/zero1/commands.h"

namespace zero1::app {
void add_trace_command(CLI::App& app, int& status) {
  (void)app, (void)status;
}
}  // namespace zero1::app
