// Runs on NVIDIA GPUs.
#pragma once

#include <functional>

#include "core/train/machine.h"

namespace zero1 {

/// Ranks on CUDA devices, with the communicator that the configuration names. With NCCL rank r has GPU r to
/// itself; in-process ranks are dealt out over all visible GPUs. Throws InputError where there is no driver
/// or no GPU, and where NCCL would need more GPUs.
Machine make_cuda_machine(const TrainConfig& config, std::function<bool()> paused);

/// The GPUs and their ranks, the communicator, and what CUDA_DEVICE_MAX_CONNECTIONS means for overlap here;
/// warns of GPUs that differ. Throws as make_cuda_machine.
MachineDescription describe_cuda_machine(const TrainConfig& config);

}  // namespace zero1
