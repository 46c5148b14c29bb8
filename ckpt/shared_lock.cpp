#include "ckpt/shared_lock.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

namespace zero1::ckpt {

namespace {

/// "process 17 (flock)" of the holder of an exclusive lock on `fd`; Linux lists locks in /proc/locks, a line
/// each: "1: FLOCK  ADVISORY  WRITE 17 08:01:131090 0 EOF", device and inode last but two.
std::string holder_of(int fd) {
  struct stat status {};
  std::ifstream locks("/proc/locks");
  if (::fstat(fd, &status) != 0) return "another program";
  const std::string place = fmt::format("{:02x}:{:02x}:{}", major(status.st_dev), minor(status.st_dev),
                                        static_cast<std::uint64_t>(status.st_ino));
  std::string number, kind, mode, access, process, where, begin, end;
  while (locks >> number >> kind) {
    if (kind == "->") locks >> kind;  // waits for the lock above
    if (!(locks >> mode >> access >> process >> where >> begin >> end)) break;
    if (kind != "FLOCK" || access != "WRITE" || where != place) continue;
    std::string name;
    std::getline(std::ifstream("/proc/" + process + "/comm"), name);
    return fmt::format("process {}{}", process, name.empty() ? "" : " (" + name + ")");
  }
  return "another program";
}

bool lies_at(int fd, const std::string& path) {
  struct stat opened {};
  struct stat found {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &found) == 0 && opened.st_dev == found.st_dev &&
         opened.st_ino == found.st_ino;
}

}  // namespace

void lock_shared(int fd, const std::string& path) {
  constexpr std::chrono::milliseconds look_every{20};
  const auto deadline = std::chrono::steady_clock::now() + lock_patience;
  while (::flock(fd, LOCK_SH | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;
    if (!lies_at(fd, path)) throw InputError(path + ": was removed while it was being opened");
    if (std::chrono::steady_clock::now() >= deadline) {
      throw FolderLocked(fmt::format(
          "{}: is locked: {} holds an exclusive lock (flock) on this folder, and after {} s still did; try "
          "again when it has ended, or end it",
          path, holder_of(fd), lock_patience.count()));
    }
    std::this_thread::sleep_for(look_every);
  }
}

}  // namespace zero1::ckpt
