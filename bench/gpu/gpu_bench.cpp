// gpu_bench: what the CUDA device, both communicators and training reach on this machine's GPUs, each figure
// beside a bound that was measured in the same run. scripts/gpu_check runs it.
#include <fmt/format.h>

#include <string>

#include "bench/flags.h"
#include "bench/gpu/sections.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/device/cuda/cuda_device.h"
#ifdef ZERO1_WITH_NCCL
#include "core/comm/nccl/nccl_check.h"
#endif

namespace zero1::bench {
namespace {

std::string version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

nlohmann::ordered_json describe_machine() {
  nlohmann::ordered_json machine;
  int driver = 0, runtime = 0;
  ZERO1_CUDA_CHECK(cudaDriverGetVersion(&driver));
  ZERO1_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  machine["driver_cuda"] = version(driver);
  machine["runtime_cuda"] = version(runtime);
#ifdef ZERO1_WITH_NCCL
  machine["nccl"] = nccl_version();
#else
  machine["nccl"] = nullptr;
#endif
  for (int gpu = 0; gpu < cuda_device_count(); ++gpu) {
    cudaDeviceProp p{};
    ZERO1_CUDA_CHECK(cudaGetDeviceProperties(&p, gpu));
    machine["gpus"].push_back({{"name", std::string(p.name)},
                               {"compute_capability", fmt::format("{}.{}", p.major, p.minor)},
                               {"memory_bytes", p.totalGlobalMem},
                               {"multiprocessors", p.multiProcessorCount}});
    fmt::print("GPU {}: {}, compute capability {}.{}, {} MiB\n", gpu, p.name, p.major, p.minor,
               p.totalGlobalMem >> 20);
  }
  fmt::print("CUDA {} (driver {})\n", version(runtime), version(driver));
  return machine;
}

int run(const Sizes& sizes, const std::string& path) {
  nlohmann::ordered_json result = {{"machine", describe_machine()}, {"tiny", sizes.tiny}};
  Figures figures;
  Limits limits;
  measure_limits(figures, sizes, limits);
  measure_operations(figures, sizes, limits);
  measure_collectives(figures, sizes, limits);
  measure_training(figures, sizes, limits);
  result.update(figures.json());
  if (!path.empty()) write_file(path, result.dump(1) + "\n");
  return 0;
}

}  // namespace
}  // namespace zero1::bench

int main(int argc, char** argv) {
  zero1::bench::Flags flags("The CUDA device, communicators and training against measured bounds");
  zero1::bench::Sizes sizes;
  std::string json;
  flags.add("--tiny", sizes.tiny, "Sizes that show only that everything runs");
  flags.add("--json", json, "Also write the figures here");
  flags.add("--rounds", sizes.rounds, "Rounds, of which the best counts");
  flags.parse(argc, argv);
  if (sizes.tiny) {
    sizes.elems = 1 << 12;
    sizes.bucket_mib = {1};
    sizes.matmul = 16;
    sizes.rounds = sizes.repeats = 1;
    sizes.steps = 2;
  }
  try {
    return zero1::bench::run(sizes, json);
  } catch (const zero1::InputError& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 1;
  }
}
