// The ranks of a new in-process world, handed out one by one.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/comm/local/group.h"

namespace zero1::local {

/// Makes the group of a world and remembers whose communicator has been made. Thread-safe.
class Members {
 public:
  /// Throws std::invalid_argument for a size below 1 or a time-out that is not positive.
  Members(int size, LocalWorldOptions options);
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  ~Members();  ///< ranks that were never taken count as having left

  int size() const { return group_->size(); }
  const std::shared_ptr<Group>& group() const { return group_; }

  /// The group, for the communicator of `rank`, which may be taken once.
  const std::shared_ptr<Group>& take(int rank);

 private:
  std::shared_ptr<Group> group_;
  std::mutex mutex_;
  std::vector<bool> taken_;  ///< by rank
};

}  // namespace zero1::local
