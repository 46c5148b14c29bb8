#include "core/base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/file_io.h"

namespace zero1 {
namespace {

/// Distinguishes the temporary files of one process.
std::atomic<int> next_serial{0};

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    // Renaming over it would replace a device node such as /dev/null by a file.
    throw InputError(fmt::format("{}: is there and is not a regular file; name another file", path_));
  }
  if (exists) path_ = std::filesystem::canonical(path_).string();
  temporary_path_ = fmt::format("{}.tmp.{}.{}", path_, ::getpid(), next_serial++);
  fd_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) throw InputError(fmt::format("{}: cannot be created: {}", path_, std::strerror(errno)));
  if (exists) ::fchmod(fd_, status.st_mode & 07777);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_path_.c_str());
}

void OutputFile::fail(const char* call) const {
  throw Error(fmt::format("{}: cannot be written ({}): {}", path_, call, std::strerror(errno)));
}

void OutputFile::append(std::string_view bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size());
  write_at(appended_, bytes.data(), count);
  appended_ += count;
}

void OutputFile::write_at(std::int64_t offset, const void* from, std::int64_t bytes) {
  if (!write_whole(fd_, from, bytes, offset)) fail("pwrite");
}

void OutputFile::publish() {
  if (::fsync(fd_) != 0) fail("fsync");
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("rename");
  ::close(std::exchange(fd_, -1));
  flush_folder(parent_folder(path_));  // only now is the rename itself on disk
}

}  // namespace zero1
