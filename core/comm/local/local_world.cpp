#include "core/comm/local/local_world.h"

#include <fmt/format.h>

#include <mutex>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "core/comm/local/group.h"
#include "core/comm/local/local_communicator.h"
#include "core/device/cpu/cpu_device.h"

namespace zero1 {

struct LocalWorld::Impl {
  std::shared_ptr<local::Group> group;
  std::shared_ptr<Device> events;
  std::mutex mutex;
  std::vector<bool> made;  ///< by rank
};

LocalWorld::LocalWorld(int size, LocalWorldOptions options) : impl_(std::make_shared<Impl>()) {
  if (size < 1) throw std::invalid_argument(fmt::format("LocalWorld: {} ranks, expected at least 1", size));
  if (options.timeout.count() <= 0) {
    throw std::invalid_argument(
        fmt::format("LocalWorld: a time-out of {} ms, expected more than 0", options.timeout.count()));
  }
  // Within what nanoseconds can count.
  options.timeout = std::min<std::chrono::milliseconds>(options.timeout, std::chrono::hours(24 * 365));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  impl_->group = std::make_shared<local::Group>(options.name, std::move(ranks), options, nullptr);
  impl_->events = make_cpu_device({});
  impl_->made.resize(static_cast<std::size_t>(size), false);
}

LocalWorld::~LocalWorld() {
  const std::lock_guard lock(impl_->mutex);
  for (int rank = 0; rank < size(); ++rank) {
    if (!impl_->made[static_cast<std::size_t>(rank)]) impl_->group->leave(rank);
  }
}

int LocalWorld::size() const {
  return impl_->group->size();
}

std::unique_ptr<Communicator> LocalWorld::communicator(int rank) {
  if (rank < 0 || rank >= size()) {
    throw std::invalid_argument(fmt::format("LocalWorld: rank {} of {}", rank, size()));
  }
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->made[static_cast<std::size_t>(rank)]) {
      throw std::logic_error(fmt::format("LocalWorld: rank {}'s communicator was made before", rank));
    }
    impl_->made[static_cast<std::size_t>(rank)] = true;
  }
  return std::make_unique<local::LocalCommunicator>(impl_->group, rank, impl_->events);
}

}  // namespace zero1
