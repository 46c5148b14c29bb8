// Ranks on GPUs as a backend of the communicator suite.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "core/comm/local/local_world.h"
#include "core/device/cuda/cuda_device.h"
#include "tests/conformance/communicator_support.h"

namespace zero1::test {

inline LocalWorldOptions test_group(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return {.name = "test-group", .timeout = timeout, .paused = {}};
}

/// `World` is LocalGpuWorld or NcclWorld.
template <class World>
class GpuWorldBackend : public CommunicatorBackend {
 public:
  std::vector<int> sizes() const override { return {1, 2, 3, 4}; }

  void run(int size, const std::function<void(RankContext&)>& body) override {
    std::vector<int> ordinals;
    for (int rank = 0; rank < size; ++rank) ordinals.push_back(gpu_of(rank));
    std::vector<std::unique_ptr<Device>> devices;
    for (const int gpu : ordinals) devices.push_back(make_cuda_device({.ordinal = gpu}));
    World world(ordinals, test_group());
    std::vector<std::unique_ptr<Communicator>> communicators;
    const auto at = [](auto& list, int rank) -> auto& {
      return list[static_cast<std::size_t>(rank)];
    };
    for (int rank = 0; rank < size; ++rank) {
      communicators.push_back(world.communicator(rank, *at(devices, rank)));
    }
    run_ranks(
        size,
        [&](int rank) {
          const auto stream = at(devices, rank)->create_stream(StreamKind::communication);
          RankContext context{at(communicators, rank), *at(devices, rank), *stream};
          body(context);
        },
        [&](int rank, const std::string& what) {
          if (at(communicators, rank)) at(communicators, rank)->abort(what);
        });
  }

 protected:
  virtual int gpu_of(int rank) const { return rank; }
};

}  // namespace zero1::test
