#include "core/comm/local/local_world.h"

#include "core/comm/local/local_communicator.h"
#include "core/comm/local/members.h"
#include "core/device/cpu/cpu_device.h"

namespace zero1 {

struct LocalWorld::Impl {
  local::Members members;
  std::shared_ptr<Device> events;
};

LocalWorld::LocalWorld(int size, LocalWorldOptions options)
    : impl_(new Impl{{size, std::move(options)}, make_cpu_device({})}) {}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const {
  return impl_->members.size();
}

std::unique_ptr<Communicator> LocalWorld::communicator(int rank) {
  return std::make_unique<local::LocalCommunicator>(impl_->members.take(rank), rank, impl_->events);
}

}  // namespace zero1
