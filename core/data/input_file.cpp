#include "core/data/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/file_io.h"
#include "core/base/units.h"

namespace zero1 {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("{}: {}", path, why));
}

}  // namespace

// Without O_NONBLOCK, opening a named pipe would wait for its writer.
InputFile::InputFile(const std::string& path)
    : InputFile(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

InputFile InputFile::in_folder(int folder_fd, const std::string& folder_path, const std::string& name) {
  const int fd = ::openat(folder_fd, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  const std::string path = folder_path + "/" + name;
  if (fd < 0 && errno == ELOOP) fail(path, "is a link, which is refused here");
  return {path, fd};
}

InputFile::InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
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
  const std::int64_t got = read_whole(fd_, to, bytes, offset);
  if (got < 0) fail(path_, fmt::format("cannot read at byte {}: {}", offset, std::strerror(errno)));
  if (got == bytes) return;
  if (offset > size_bytes_ - bytes) {
    fail(path_, fmt::format("{}, where at least {} were expected: it was cut", counted(size_bytes_, "byte"),
                            format_count(offset + bytes)));
  }
  fail(path_, fmt::format("has become shorter than the {} bytes it had when it was opened", size_bytes_));
}

}  // namespace zero1
