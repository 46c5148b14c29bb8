// A shared lock on a folder that is read, and who stands in its way.
#pragma once

#include <chrono>
#include <string>

#include "core/base/error.h"

namespace zero1::ckpt {

/// Another program keeps a folder from being read.
class FolderLocked : public InputError {
 public:
  using InputError::InputError;
};

/// How long a reader waits for whoever holds an exclusive lock: a run that removes or replaces what it reads
/// is done sooner.
inline constexpr std::chrono::seconds lock_patience{5};

/// Takes a shared flock on the opened folder `fd`, found at `path`. Returns without one where the file system
/// has no locks. Throws FolderLocked after `lock_patience`, naming the holder where Linux tells, and
/// InputError at once when the folder has left `path` while its lock was held: it is being removed.
void lock_shared(int fd, const std::string& path);

}  // namespace zero1::ckpt
