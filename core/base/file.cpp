#include "core/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/output_file.h"

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

/// Whether `fd` is a pipe with a name in a file system, made by mkfifo, and not one of the shell's.
bool is_named_pipe(int fd, const struct stat& status) {
  struct statfs system {};
  return S_ISFIFO(status.st_mode) && ::fstatfs(fd, &system) == 0 && system.f_type != PIPEFS_MAGIC;
}

/// Opens a file to be read; a pipe that nobody writes to does not stop it.
int open_without_waiting(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) ::fcntl(fd, F_SETFL, 0);  // reading waits as usual
  return fd;
}

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

}  // namespace

std::string read_file(const std::string& path) {
  const std::string shown = path == "-" ? "standard input" : path;
  const auto fail = [&](int error) {
    throw InputError(fmt::format("{}: cannot read: {}", shown, reason(error)));
  };
  const Descriptor file(path == "-" ? ::dup(STDIN_FILENO) : open_without_waiting(path));
  if (!file.valid()) fail(errno);
  const auto fail_too_large = [&] {
    throw InputError(fmt::format("{}: has more than the 1 GiB that is read at most", shown));
  };
  struct stat status {};
  const bool known = ::fstat(file.get(), &status) == 0;
  if (known && path != "-" && is_named_pipe(file.get(), status)) {
    throw InputError(fmt::format(
        "{}: is a named pipe, on which one may wait for ever; save its content to a file", shown));
  }
  if (known && S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) > max_whole_file_bytes)
    fail_too_large();
  std::string contents;
  std::string chunk(std::size_t{1} << 16, '\0');
  while (true) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count == 0) return contents;
    if (count > 0) {
      if (contents.size() + static_cast<std::size_t>(count) > max_whole_file_bytes) fail_too_large();
      contents.append(chunk.data(), static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      fail(errno);
    }
  }
}

void write_file(const std::string& path, std::string_view contents) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw InputError(path + ": is a folder; name a file");
  if (exists && !S_ISREG(status.st_mode)) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.valid()) fail_to_write(path, errno);
    if (const int error = write_all(file.get(), contents)) fail_to_write(path, error);
    return;
  }
  OutputFile file(path);
  file.append(contents);
  file.publish();
}

bool same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::is_other(a, none)) return false;
  // The first compares names, also of files that are not there yet, the second sees hard links.
  return fs::weakly_canonical(fs::absolute(a, none), none) ==
             fs::weakly_canonical(fs::absolute(b, none), none) ||
         fs::equivalent(a, b, none);
}

}  // namespace zero1
