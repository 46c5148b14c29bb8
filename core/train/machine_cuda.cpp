#include "core/train/machine_cuda.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <set>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/comm/local_gpu/local_gpu_world.h"
#include "core/device/cuda/cuda_check.h"
#include "core/device/cuda/cuda_device.h"

#ifdef ZERO1_WITH_NCCL
#include "core/comm/nccl/nccl_check.h"
#include "core/comm/nccl/nccl_world.h"
#endif

namespace zero1 {
namespace {

[[maybe_unused, noreturn]] void reject_nccl() {
  throw InputError(
      "--comm nccl: this zero1 was built without NCCL. Install libnccl-dev and build again, or use "
      "--comm local");
}

std::string communicator_name(const TrainConfig& config) {
  if (config.comm == "local") return "in-process, by peer copies and kernels";
#ifdef ZERO1_WITH_NCCL
  return nccl_version();
#else
  reject_nccl();
#endif
}

/// Each rank's GPU.
std::vector<int> assign_gpus(const TrainConfig& config) {
  const int gpus = cuda_device_count();
  if (config.comm == "nccl" && config.dp > gpus) {
    throw InputError(
        fmt::format("--comm nccl needs a GPU for each rank: --dp {}, but {} GPU{} visible. --comm local lets "
                    "several ranks share a GPU",
                    config.dp, gpus, gpus == 1 ? " is" : "s are"));
  }
  std::vector<int> ordinals;
  for (int rank = 0; rank < config.dp; ++rank) ordinals.push_back(rank % gpus);
  return ordinals;
}

/// Hardware queues per GPU, as CUDA reads them when it starts.
int max_connections() {
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int value = text == nullptr ? 0 : std::atoi(text);
  return value >= 1 && value <= 32 ? value : 8;
}

std::string describe_connections(int ranks_per_gpu) {
  const int queues = max_connections();
  const int streams = 2 * ranks_per_gpu;
  const bool set = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") != nullptr;
  std::string effect;
  if (queues == 1) {
    effect =
        "one hardware queue: a collective does not start before the compute that was submitted ahead of it, "
        "so "
        "overlap shrinks";
  } else if (streams > queues) {
    effect = fmt::format(
        "{} streams of a GPU share {} hardware queues: some wait for others, so overlap may "
        "shrink; set it to {}",
        streams, queues, std::min(32, streams));
  } else {
    effect = "every stream has a hardware queue: a collective starts as soon as its inputs are ready";
  }
  return fmt::format("CUDA_DEVICE_MAX_CONNECTIONS {}{}: {}", queues, set ? "" : " (not set)", effect);
}

}  // namespace

Machine make_cuda_machine(const TrainConfig& config, std::function<bool()> paused) {
  const std::vector<int> ordinals = assign_gpus(config);
  Machine machine;
  for (int rank = 0; rank < config.dp; ++rank) {
    machine.devices.push_back(make_cuda_device(
        {.ordinal = ordinals[static_cast<std::size_t>(rank)], .tf32 = config.tf32, .rank = rank}));
  }
  LocalWorldOptions options;
  options.paused = std::move(paused);
  const auto connect = [&](auto&& world) {
    for (int rank = 0; rank < config.dp; ++rank) {
      machine.communicators.push_back(
          world.communicator(rank, *machine.devices[static_cast<std::size_t>(rank)]));
    }
  };
  if (config.comm == "local") {
    connect(LocalGpuWorld(ordinals, std::move(options)));
  } else {
#ifdef ZERO1_WITH_NCCL
    connect(NcclWorld(ordinals, std::move(options)));
#else
    reject_nccl();
#endif
  }
  return machine;
}

MachineDescription describe_cuda_machine(const TrainConfig& config) {
  const std::vector<int> ordinals = assign_gpus(config);
  const std::set<int> used(ordinals.begin(), ordinals.end());
  MachineDescription description;
  std::set<std::string> capabilities;
  for (const int gpu : used) {
    cudaDeviceProp properties{};
    ZERO1_CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu));
    const std::string capability = fmt::format("{}.{}", properties.major, properties.minor);
    capabilities.insert(capability);
    std::vector<int> ranks;
    for (int rank = 0; rank < config.dp; ++rank) {
      if (ordinals[static_cast<std::size_t>(rank)] == gpu) ranks.push_back(rank);
    }
    description.lines.push_back(
        fmt::format("GPU {}: {}, compute capability {}, {}: rank{} {}", gpu, properties.name, capability,
                    format_bytes(static_cast<std::int64_t>(properties.totalGlobalMem)),
                    ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", ")));
  }
  description.lines.push_back("communicator: " + communicator_name(config));
  const auto gpus = static_cast<int>(used.size());
  description.lines.push_back(describe_connections((config.dp + gpus - 1) / gpus));
  if (capabilities.size() > 1) {
    description.warnings.push_back(fmt::format(
        "GPUs of different compute capability ({}): the slowest sets the pace of every step, and ranks may "
        "round differently; CUDA_VISIBLE_DEVICES selects like ones",
        fmt::join(capabilities, ", ")));
  }
  return description;
}

}  // namespace zero1
