#include "core/train/machine.h"

#include "core/comm/local/local_world.h"
#include "core/device/cpu/cpu_device.h"

namespace zero1 {

Machine make_cpu_machine(const TrainConfig& config, std::function<bool()> paused) {
  Machine machine;
  LocalWorldOptions options;
  options.paused = std::move(paused);
  LocalWorld world(config.dp, std::move(options));
  for (int rank = 0; rank < config.dp; ++rank) {
    machine.devices.push_back(make_cpu_device({config.threads_per_rank}));
    std::unique_ptr<Communicator> communicator = world.communicator(rank);
    if (config.link.enabled()) communicator = with_link_model(std::move(communicator), config.link);
    machine.communicators.push_back(std::move(communicator));
  }
  return machine;
}

}  // namespace zero1
