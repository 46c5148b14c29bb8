#include "core/comm/local_gpu/local_gpu_world.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/comm/local/members.h"
#include "core/comm/local_gpu/local_gpu_communicator.h"
#include "core/comm/local_gpu/reduce.h"

namespace zero1 {

struct LocalGpuWorld::Impl {
  local::Members members;
  std::vector<int> ordinals;
};

LocalGpuWorld::LocalGpuWorld(std::vector<int> ordinals, LocalWorldOptions options) {
  if (ordinals.size() > static_cast<std::size_t>(local_gpu::max_ranks)) {
    throw InputError(fmt::format("--comm local takes up to {} ranks on GPUs, got --dp {}",
                                 local_gpu::max_ranks, ordinals.size()));
  }
  const int size = static_cast<int>(ordinals.size());
  impl_.reset(new Impl{{size, std::move(options)}, std::move(ordinals)});
}

LocalGpuWorld::~LocalGpuWorld() = default;

int LocalGpuWorld::size() const {
  return impl_->members.size();
}

std::unique_ptr<Communicator> LocalGpuWorld::communicator(int rank, Device& device) {
  return std::make_unique<local_gpu::LocalGpuCommunicator>(impl_->members.take(rank), rank, device,
                                                           impl_->ordinals);
}

}  // namespace zero1
