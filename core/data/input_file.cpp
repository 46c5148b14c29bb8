#include "core/data/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace zero1 {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: {}", path, why));
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail(path_, fmt::format("cannot be opened for reading: {}", std::strerror(errno)));
  struct stat status {};
  const bool known = ::fstat(fd_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const bool folder = known && S_ISDIR(status.st_mode);
    ::close(fd_);
    fail(path_,
         folder ? "is a folder; name one file" : "is not a regular file; save its content to one first");
  }
  size_bytes_ = status.st_size;
}

InputFile::~InputFile() {
  ::close(fd_);
}

void InputFile::read_at(std::int64_t offset, void* to, std::int64_t bytes) const {
  auto* cursor = static_cast<char*>(to);
  // One call transfers 2 GiB at most on Linux.
  constexpr std::int64_t max_call_bytes = std::int64_t{1} << 30;
  while (bytes > 0) {
    const ssize_t got =
        ::pread(fd_, cursor, static_cast<std::size_t>(std::min(bytes, max_call_bytes)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, fmt::format("cannot read at byte {}: {}", offset, std::strerror(errno)));
    if (got == 0)
      fail(path_, fmt::format("has become shorter than the {} bytes it had when it was opened", size_bytes_));
    cursor += got;
    offset += got;
    bytes -= got;
  }
}

}  // namespace zero1
