#include "core/comm/local/members.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace zero1::local {

Members::Members(int size, LocalWorldOptions options) {
  if (size < 1) throw std::invalid_argument(fmt::format("a world of {} ranks, expected at least 1", size));
  if (options.timeout.count() <= 0) {
    throw std::invalid_argument(
        fmt::format("a time-out of {} ms, expected more than 0", options.timeout.count()));
  }
  // Within what nanoseconds can count.
  options.timeout = std::min<std::chrono::milliseconds>(options.timeout, std::chrono::hours(24 * 365));
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  group_ = std::make_shared<Group>(options.name, std::move(ranks), options, nullptr);
  taken_.resize(static_cast<std::size_t>(size), false);
}

Members::~Members() {
  for (int rank = 0; rank < size(); ++rank) {
    if (!taken_[static_cast<std::size_t>(rank)]) group_->leave(rank);
  }
}

const std::shared_ptr<Group>& Members::take(int rank) {
  if (rank < 0 || rank >= size()) {
    throw std::invalid_argument(fmt::format("rank {} of a world of {}", rank, size()));
  }
  const std::lock_guard lock(mutex_);
  if (taken_[static_cast<std::size_t>(rank)]) {
    throw std::logic_error(fmt::format("rank {}'s communicator was made before", rank));
  }
  taken_[static_cast<std::size_t>(rank)] = true;
  return group_;
}

}  // namespace zero1::local
