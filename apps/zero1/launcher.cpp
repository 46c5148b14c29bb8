#include "apps/zero1/launcher.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace zero1::app {

namespace {

struct Variables {
  const char* launcher;
  const char* size;
  const char* rank;
};

constexpr Variables launchers[] = {{"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   {"MVAPICH's mpirun", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                   {"mpiexec", "PMI_SIZE", "PMI_RANK"},
                                   {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
                                   {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK"},
                                   {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                                   {"srun", "SLURM_NTASKS", "SLURM_PROCID"},
                                   {"torchrun", "WORLD_SIZE", "RANK"}};

std::optional<long> number_of(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  long value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::string Launch::text() const {
  return fmt::format(
      "this is process {} of {} that {} has started ({}={}). `zero1 train` runs all ranks of --dp as threads "
      "of one "
      "process and does not communicate with other processes: each of the {} trains the whole model on its "
      "own, {} "
      "independent copies",
      rank, size, launcher, variable, size, size, size);
}

std::optional<Launch> find_launch() {
  for (const Variables& each : launchers) {
    const bool of_job = std::strcmp(each.size, "SLURM_NTASKS") == 0;
    if (of_job && number_of("SLURM_STEP_NUM_TASKS")) continue;  // the step may have fewer
    const std::optional<long> size = number_of(each.size);
    const std::optional<long> rank = number_of(each.rank);
    if (!size || !rank) continue;
    if (*size > 1) return Launch{each.launcher, each.size, *rank, *size};
  }
  return std::nullopt;
}

}  // namespace zero1::app
