// In-process ranks as a backend of the communicator suite.
#pragma once

#include "core/comm/local/local_world.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/conformance/communicator_support.h"

namespace zero1::test {

class LocalBackend : public CommunicatorBackend {
 public:
  std::vector<int> sizes() const override { return {1, 2, 3, 4, 5, 6, 7, 8}; }

  void run(int size, const std::function<void(RankContext&)>& body) override {
    LocalWorld world(size, {.name = "test-group", .timeout = std::chrono::seconds(60), .paused = {}});
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int rank = 0; rank < size; ++rank) communicators.push_back(wrap(world.communicator(rank)));
    const auto at = [&](int rank) -> auto& {
      return communicators[static_cast<std::size_t>(rank)];
    };
    run_ranks(
        size,
        [&](int rank) {
          const auto device = make_cpu_device({});
          const auto stream = device->create_stream(StreamKind::communication);
          RankContext context{at(rank), *device, *stream};
          body(context);
        },
        [&](int rank, const std::string& what) {
          if (at(rank)) at(rank)->abort(what);
        });
  }

 protected:
  virtual std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> inner) const { return inner; }
};

}  // namespace zero1::test
