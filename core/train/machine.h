// What a run's ranks run on: a device each, and communicators between them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/device/device.h"
#include "core/train/config.h"

namespace zero1 {

/// By rank. Communicators are destroyed before the devices whose memory they use.
struct Machine {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Communicator>> communicators;
};

/// Builds what `config` asks for. `paused`: while it returns true a rank may be held on purpose, and no
/// collective times out. Throws InputError naming the flag where the machine cannot do it.
Machine make_machine(const TrainConfig& config, std::function<bool()> paused);

}  // namespace zero1
