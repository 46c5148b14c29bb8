// Preloaded into a program under test: counts the calls by which it changes a folder, and at a chosen one
// kills it, kills it in the middle, or makes the disk full. So a crash is tested call by call, not by luck.
//
//   ZERO1_SHIM_ROOT    only calls on what lies below this folder count
//   ZERO1_SHIM_AT      which call, 1 is the first; 0 or unset: none
//   ZERO1_SHIM_ACTION  kill: before the call; torn: after it, a write half done; full: it fails with ENOSPC;
//                      interrupt: SIGINT comes before it
//   ZERO1_SHIM_LOG     a line per call that counts: its number, its name, the path
//   ZERO1_SHIM_NO_LOCKS  set: flock fails, as on a network file system without locks
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Settings {
  const std::string root = setting("ZERO1_SHIM_ROOT");
  const std::string log = setting("ZERO1_SHIM_LOG");
  const std::string action = setting("ZERO1_SHIM_ACTION");
  const long at = std::atol(setting("ZERO1_SHIM_AT").c_str());
  std::mutex mutex;
  long count = 0;
  int log_fd = -1;
};

Settings& settings() {
  static auto* const value = new Settings;  // never destroyed: calls may come late
  return *value;
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int fd) {
  std::string target(PATH_MAX, '\0');
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  target.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
  return target;
}

std::string path_at(int folder, const char* name) {
  return name[0] == '/' || folder == AT_FDCWD ? std::string(name) : path_of(folder) + "/" + name;
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  while (true) ::pause();
}

enum class Fate { go_on, torn, full };

/// To be asked before every call that changes something. Does not return where the program is killed now.
Fate fate_of(const char* call, const std::string& path) {
  Settings& s = settings();
  if (s.root.empty() || path.compare(0, s.root.size(), s.root) != 0) return Fate::go_on;
  const std::lock_guard lock(s.mutex);
  ++s.count;
  if (!s.log.empty()) {
    static auto* const real_open = real<int(const char*, int, ...)>("open");
    static auto* const real_write = real<ssize_t(int, const void*, std::size_t)>("write");
    if (s.log_fd < 0) s.log_fd = real_open(s.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const std::string line = std::to_string(s.count) + " " + call + " " + path + "\n";
    if (real_write(s.log_fd, line.data(), line.size()) < 0) std::abort();
  }
  if (s.count != s.at) return Fate::go_on;
  if (s.action == "kill") die();
  if (s.action == "interrupt") {
    ::kill(::getpid(), SIGINT);
    return Fate::go_on;
  }
  return s.action == "torn" ? Fate::torn : Fate::full;
}

/// A call without anything to be half done.
template <class Call>
auto pass(const char* name, const std::string& path, Call&& call) -> decltype(call()) {
  const Fate fate = fate_of(name, path);
  if (fate == Fate::full) {
    errno = ENOSPC;
    return -1;
  }
  const auto result = call();
  if (fate == Fate::torn) die();
  return result;
}

/// A call that transfers `bytes`.
template <class Call>
ssize_t pass_write(const char* name, int fd, std::size_t bytes, Call&& call) {
  const Fate fate = fate_of(name, path_of(fd));
  if (fate == Fate::full) {
    errno = ENOSPC;
    return -1;
  }
  const ssize_t result = call(fate == Fate::torn ? bytes / 2 : bytes);
  if (fate == Fate::torn) die();
  return result;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* from, std::size_t bytes) {
  static auto* const next = real<ssize_t(int, const void*, std::size_t)>("write");
  return pass_write("write", fd, bytes, [&](std::size_t count) { return next(fd, from, count); });
}

ssize_t pwrite(int fd, const void* from, std::size_t bytes, off_t offset) {
  static auto* const next = real<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  return pass_write("pwrite", fd, bytes, [&](std::size_t count) { return next(fd, from, count, offset); });
}

ssize_t pwrite64(int fd, const void* from, std::size_t bytes, off64_t offset) {
  return pwrite(fd, from, bytes, offset);
}

int open(const char* path, int flags, ...) {
  static auto* const next = real<int(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) == 0) return next(path, flags);
  return pass("open", path, [&] { return next(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  return open(path, flags, mode);
}

int fsync(int fd) {
  static auto* const next = real<int(int)>("fsync");
  return pass("fsync", path_of(fd), [&] { return next(fd); });
}

int ftruncate(int fd, off_t length) noexcept {
  static auto* const next = real<int(int, off_t)>("ftruncate");
  return pass("ftruncate", path_of(fd), [&] { return next(fd, length); });
}

int ftruncate64(int fd, off64_t length) noexcept {
  return ftruncate(fd, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
  static auto* const next = real<int(int, int, off_t, off_t)>("fallocate");
  return pass("fallocate", path_of(fd), [&] { return next(fd, mode, offset, length); });
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  return fallocate(fd, mode, offset, length);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const next = real<int(const char*, mode_t)>("mkdir");
  return pass("mkdir", path, [&] { return next(path, mode); });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const next = real<int(const char*, const char*)>("rename");
  return pass("rename", std::string(from) + " -> " + to, [&] { return next(from, to); });
}

int symlink(const char* target, const char* path) noexcept {
  static auto* const next = real<int(const char*, const char*)>("symlink");
  return pass("symlink", path, [&] { return next(target, path); });
}

int unlink(const char* path) noexcept {
  static auto* const next = real<int(const char*)>("unlink");
  return pass("unlink", path, [&] { return next(path); });
}

int rmdir(const char* path) noexcept {
  static auto* const next = real<int(const char*)>("rmdir");
  return pass("rmdir", path, [&] { return next(path); });
}

int remove(const char* path) noexcept {
  static auto* const next = real<int(const char*)>("remove");
  return pass("remove", path, [&] { return next(path); });
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  static auto* const next = real<int(int, const char*, int)>("unlinkat");
  return pass("unlinkat", path_at(folder, name), [&] { return next(folder, name, flags); });
}

int flock(int fd, int operation) noexcept {
  static auto* const next = real<int(int, int)>("flock");
  static const bool no_locks = std::getenv("ZERO1_SHIM_NO_LOCKS") != nullptr;
  if (!no_locks) return next(fd, operation);
  errno = ENOLCK;
  return -1;
}

/// renameat2 has no other way in on older C libraries.
long syscall(long number, ...) noexcept {
  static auto* const next = real<long(long, ...)>("syscall");
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  for (long& each : a) each = va_arg(arguments, long);
  va_end(arguments);
  const auto call = [&] { return next(number, a[0], a[1], a[2], a[3], a[4], a[5]); };
  if (number != SYS_renameat2) return call();
  const std::string paths =
      std::string(reinterpret_cast<const char*>(a[1])) + " <-> " + reinterpret_cast<const char*>(a[3]);
  return pass("renameat2", paths, call);
}

}  // extern "C"
