#include "core/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"

namespace zero1 {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  throw Error(fmt::format("{}: cannot write: {}", path, reason(error)));
}

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// 0, or the error number.
int write_all(int fd, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// What a newly created file may be: 0666 without the bits of the umask.
mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

void write_beside_and_rename(const std::string& path, mode_t mode, std::string_view contents) {
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(::mkstemp(temporary.data()));
  if (!file.valid()) fail_to_write(path, errno);
  int error = write_all(file.get(), contents);
  if (error == 0 && ::fchmod(file.get(), mode) != 0) error = errno;
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    fail_to_write(path, error);
  }
}

}  // namespace

std::string read_file(const std::string& path) {
  const auto fail = [&](int error) {
    throw InputError(
        fmt::format("{}: cannot read: {}", path == "-" ? "standard input" : path, reason(error)));
  };
  const Descriptor file(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) fail(errno);
  std::string contents;
  std::string chunk(std::size_t{1} << 16, '\0');
  while (true) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count == 0) return contents;
    if (count > 0) {
      contents.append(chunk.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

void write_file(const std::string& path, std::string_view contents) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) fail_to_write(path, errno);
    return write_beside_and_rename(path, new_file_mode(), contents);
  }
  if (S_ISREG(status.st_mode)) {
    const std::string target = std::filesystem::canonical(path).string();
    return write_beside_and_rename(target, status.st_mode & 07777, contents);
  }
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) fail_to_write(path, errno);
  if (const int error = write_all(file.get(), contents)) fail_to_write(path, error);
}

}  // namespace zero1
