#include "core/comm/nccl/nccl_world.h"

#include <fmt/format.h>

#include <set>

#include "core/base/error.h"
#include "core/comm/local/members.h"
#include "core/comm/nccl/nccl_check.h"
#include "core/comm/nccl/nccl_communicator.h"

namespace zero1 {

struct NcclWorld::Impl {
  local::Members members;
  std::vector<int> ordinals;
  std::shared_ptr<nccl::Watch> watch;
  std::shared_ptr<nccl::Clique> clique;
};

NcclWorld::NcclWorld(std::vector<int> ordinals, LocalWorldOptions options) {
  if (std::set<int>(ordinals.begin(), ordinals.end()).size() < ordinals.size()) {
    throw InputError("NCCL needs a GPU for each rank; --comm local lets ranks share one");
  }
  const int size = static_cast<int>(ordinals.size());
  impl_.reset(
      new Impl{{size, options}, std::move(ordinals), std::make_shared<nccl::Watch>(options), nullptr});
  impl_->clique = impl_->watch->clique(impl_->members.group());
  ncclUniqueId id;
  ZERO1_NCCL_CHECK(ncclGetUniqueId(&id));
  ncclConfig_t config = nccl::Clique::config();
  nccl::NcclGroup together;
  for (int rank = 0; rank < size; ++rank) {
    const gpu::CurrentGpu current(impl_->ordinals[static_cast<std::size_t>(rank)]);
    ZERO1_NCCL_CHECK(ncclCommInitRankConfig(impl_->clique->arrival(rank), size, id, rank, &config));
  }
  together.end();
  for (int rank = 0; rank < size; ++rank) {
    impl_->clique->arrived(rank);
    impl_->clique->settle(rank, fmt::format("making NCCL's communicator of rank {}", rank));
  }
}

NcclWorld::~NcclWorld() = default;

int NcclWorld::size() const {
  return impl_->members.size();
}

std::unique_ptr<Communicator> NcclWorld::communicator(int rank, Device& device) {
  return std::make_unique<nccl::NcclCommunicator>(impl_->members.take(rank), rank, device,
                                                  impl_->ordinals[static_cast<std::size_t>(rank)],
                                                  impl_->watch, impl_->clique);
}

}  // namespace zero1
