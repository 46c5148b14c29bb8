#include "core/base/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace zero1 {
namespace {

/// One call transfers 2 GiB at most on Linux.
constexpr std::int64_t max_call_bytes = std::int64_t{1} << 30;

std::size_t call_bytes(std::int64_t left) {
  return static_cast<std::size_t>(std::min(left, max_call_bytes));
}

}  // namespace

bool write_whole(int fd, const void* from, std::int64_t bytes, std::int64_t offset) {
  const auto* cursor = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(fd, cursor, call_bytes(bytes), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    cursor += put;
    offset += put;
    bytes -= put;
  }
  return true;
}

std::int64_t read_whole(int fd, void* to, std::int64_t bytes, std::int64_t offset) {
  auto* cursor = static_cast<char*>(to);
  std::int64_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd, cursor + done, call_bytes(bytes - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += got;
  }
  return done;
}

void flush_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

std::string parent_folder(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace zero1
