// What a run's ranks run on: a device each, and communicators between them.
#pragma once

#include <functional>
#include <memory>
#include <string>
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

/// What a machine has to say of itself before a run.
struct MachineDescription {
  std::vector<std::string> lines;
  std::vector<std::string> warnings;
};

/// Makes a run's machine. `paused`: while it returns true a rank may be held on purpose, and no collective
/// times out; may be empty. Throws InputError naming the flag where the machine cannot do it.
using MachineFactory = std::function<Machine(const TrainConfig& config, std::function<bool()> paused)>;

/// In-process ranks on CPU devices, behind the link model if the configuration has one.
Machine make_cpu_machine(const TrainConfig& config, std::function<bool()> paused);

}  // namespace zero1
