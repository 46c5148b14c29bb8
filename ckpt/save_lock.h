// One run at a time saves into a folder.
#pragma once

#include <string>
#include <vector>

namespace zero1::ckpt {

inline constexpr const char* save_lock_name = "run.lock";

/// A folder and its parents, made where they are missing. What this has made and nobody has filled since goes
/// with it.
class MadeFolder {
 public:
  /// Throws InputError that repeats `flag`.
  MadeFolder(const std::string& flag, const std::string& path);
  MadeFolder(const MadeFolder&) = delete;
  MadeFolder& operator=(const MadeFolder&) = delete;
  ~MadeFolder();

 private:
  void remove_empty();

  std::vector<std::string> made_;  ///< outermost first
};

/// The file FOLDER/run.lock: says which process saves there, on which host, since when. It is locked (flock)
/// for as long as this lives and removed then. After a kill -9 the file stays, without its lock: whoever
/// comes next on the same host takes it over. From another host it cannot be told for sure that the process
/// is gone, so that its file has to be removed by hand. Where a file system has no locks, the process's
/// number and the time at which it began decide. Readers of checkpoints do not look at it.
class SaveLock {
 public:
  /// Throws InputError that names the holder, its host and the way out; also where the file cannot be made.
  SaveLock(const std::string& flag, const std::string& folder);
  SaveLock(const SaveLock&) = delete;
  SaveLock& operator=(const SaveLock&) = delete;
  ~SaveLock();

  /// "process 4711 on host alpha, begun …": whose lock was taken over, killed before it could remove it.
  /// Empty: nobody's.
  const std::string& taken_over() const { return taken_over_; }

  /// Lets others in. May be called twice.
  void release();

 private:
  bool try_take(const std::string& flag);

  std::string folder_;
  std::string path_;
  std::string taken_over_;
  int fd_ = -1;
};

}  // namespace zero1::ckpt
