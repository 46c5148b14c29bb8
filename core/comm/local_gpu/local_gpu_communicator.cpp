#include "core/comm/local_gpu/local_gpu_communicator.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace zero1::local_gpu {
namespace {

/// What a rank shows its peers: where its stream has its inputs ready, and where it has done its share.
struct Points final : local::Attachment {
  gpu::StreamPoint ready, done;
  std::optional<std::string> failure;  ///< why `done` was never recorded; set before departing
};

const Points& points_of(const local::Round& round, std::size_t rank) {
  return static_cast<const Points&>(*round.attachments[rank]);
}

}  // namespace

LocalGpuCommunicator::LocalGpuCommunicator(std::shared_ptr<local::Group> group, int rank, Device& device,
                                           std::vector<int> ordinals)
    : CallCommunicator(std::move(group), rank), device_(device), lane_(device, std::move(ordinals), rank) {}

LocalGpuCommunicator::~LocalGpuCommunicator() {
  if (!lane_.staged()) return;
  try {
    last_->synchronize();  // the staging memory is still being read
  } catch (const std::exception&) {
    // The stream has failed, so nothing reads any more; whoever used the stream has been told.
  }
}

std::string LocalGpuCommunicator::description() const {
  std::vector<int> gpus = lane_.ordinals();
  std::sort(gpus.begin(), gpus.end());
  const auto count = std::unique(gpus.begin(), gpus.end()) - gpus.begin();
  return fmt::format("in-process on {} GPU{}", count, count == 1 ? "" : "s");
}

Work LocalGpuCommunicator::launch(Stream& stream, local::Launch calls) {
  CudaStream& cuda = gpu::require_cuda_stream(stream, lane_.ordinal());
  const gpu::CurrentGpu current(lane_.ordinal());
  const auto points = std::make_shared<Points>();
  if (last_ && last_stream_ != cuda.handle()) stream.wait(*last_);  // it used the same staging memory
  points->ready.record(cuda.handle());
  const std::shared_ptr<local::Round> round = group()->arrive(rank(), group()->issue(rank()), calls, points);
  std::exception_ptr failure;
  try {
    queue_share(cuda, *round);
    points->done.record(cuda.handle());
  } catch (const std::exception& error) {
    points->failure = error.what();
    failure = std::current_exception();
  }
  group()->depart(*round);
  if (failure) std::rethrow_exception(failure);
  for (std::size_t peer = 0; peer < round->attachments.size(); ++peer) {
    if (static_cast<int>(peer) != rank()) points_of(*round, peer).done.order(cuda.handle());
  }
  // Only now, with this rank's memory safe from every share that was queued:
  for (std::size_t peer = 0; peer < round->attachments.size(); ++peer) {
    if (const auto& why = points_of(*round, peer).failure) {
      throw PeerError(
          fmt::format("rank {} of '{}' could not queue its share of a collective: {}", peer, name(), *why),
          static_cast<int>(peer));
    }
  }
  last_ = device_.create_event();
  last_stream_ = cuda.handle();
  stream.record(*last_);
  return Work(last_);
}

void LocalGpuCommunicator::queue_share(CudaStream& stream, const local::Round& round) {
  for (std::size_t peer = 0; peer < round.attachments.size(); ++peer) {
    if (static_cast<int>(peer) != rank()) points_of(round, peer).ready.order(stream.handle());
  }
  std::vector<const local::Call*> calls(round.launches.size());
  const std::size_t count = round.launches.front()->size();
  for (std::size_t index = 0; index < count; ++index) {
    for (std::size_t peer = 0; peer < calls.size(); ++peer) calls[peer] = &(*round.launches[peer])[index];
    lane_.queue(stream.handle(), calls);
  }
}

std::unique_ptr<Communicator> LocalGpuCommunicator::join(const std::vector<local::Round::Place>& places) {
  const local::Round::Place& own = places[static_cast<std::size_t>(rank())];
  std::vector<int> ordinals(static_cast<std::size_t>(own.group->size()));
  for (std::size_t peer = 0; peer < places.size(); ++peer) {
    if (places[peer].group == own.group) {
      ordinals[static_cast<std::size_t>(places[peer].rank)] = lane_.ordinals()[peer];
    }
  }
  return std::make_unique<LocalGpuCommunicator>(own.group, own.rank, device_, std::move(ordinals));
}

}  // namespace zero1::local_gpu
