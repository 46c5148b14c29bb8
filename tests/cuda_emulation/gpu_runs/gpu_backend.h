// Ranks on virtual GPUs as a backend of the communicator suite.
#pragma once

#include "cuda_emulation/control.h"
#include "tests/conformance/communicator_gpu_backend.h"

namespace zero1::test {

template <class World>
class GpuBackend : public GpuWorldBackend<World> {
 public:
  GpuBackend() { cuda_emulation::set_device_count(5); }  // as many as the suite's largest fixed group
  ~GpuBackend() override { cuda_emulation::set_device_count(4); }
};

}  // namespace zero1::test
