#include "ckpt/save_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/file_io.h"
#include "core/base/text.h"

namespace zero1::ckpt {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view first_line = "zero1 saves into this folder\n";

/// What a lock's file says.
struct Holder {
  long process = 0;
  std::string host;
  std::string since;
  std::string ticks;  ///< when the process began, as the kernel counts: numbers of processes come again

  std::string text() const {
    return fmt::format("process {} on host {}, begun {}", process, printable(host, 80), printable(since, 40));
  }
};

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

/// When a process began, in the kernel's ticks since it was started; empty: there is no such process, or the
/// system does not tell.
std::string start_ticks(long process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end_of_name = text.rfind(')');  // a name may hold anything
  if (end_of_name == std::string::npos) return "";
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  constexpr int after_name = 20;  // field 22 of proc(5), the third is the first behind the name
  for (int i = 0; i < after_name; ++i) fields >> field;
  return field;
}

bool lives(const Holder& holder) {
  if (holder.process <= 0) return false;
  const std::string ticks = start_ticks(holder.process);
  if (!ticks.empty()) return ticks == holder.ticks;
  return !fs::exists("/proc/self/stat") &&
         (::kill(static_cast<pid_t>(holder.process), 0) == 0 || errno == EPERM);
}

std::string own_text() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{}process {}\nhost {}\nbegun {:%Y-%m-%d %H:%M:%S} UTC\nticks {}\n", first_line,
                     ::getpid(), host_name(), fmt::gmtime(now), start_ticks(::getpid()));
}

std::string read_lock(int fd) {
  constexpr std::int64_t longest = 4096;
  std::string text(longest, '\0');
  const std::int64_t bytes = read_whole(fd, text.data(), longest, 0);
  text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return text;
}

/// Empty where the text is cut short: its writer was killed over it.
std::optional<Holder> parse_lock(const std::string& text) {
  Holder holder;
  std::istringstream lines(text.substr(std::min(text.size(), first_line.size())));
  std::string word, value;
  int fields = 0;
  while (lines >> word && std::getline(lines >> std::ws, value) && !lines.eof()) {
    ++fields;
    if (word == "process") std::from_chars(value.data(), value.data() + value.size(), holder.process);
    if (word == "host") holder.host = value;
    if (word == "begun") holder.since = value;
    if (word == "ticks") holder.ticks = value;
  }
  if (fields < 4 || holder.process <= 0) return std::nullopt;
  return holder;
}

/// Whether it can be the beginning of what this program writes.
bool is_lock_text(const std::string& text) {
  return first_line.starts_with(text) || text.starts_with(first_line);
}

[[noreturn]] void refuse(const std::string& flag, const std::string& folder, const std::string& path,
                         const std::optional<Holder>& holder) {
  const bool elsewhere = holder && holder->host != host_name();
  throw InputError(
      fmt::format("{} {}: another run saves there: {}. Two runs would replace each other's checkpoints: save "
                  "into another "
                  "folder, or wait until that run has ended{}",
                  flag, folder, holder ? holder->text() : "its process has not told its number yet",
                  elsewhere ? fmt::format("; if it no longer lives: rm {}", shell_word(path)) : ""));
}

/// The lock's file, made where it is missing; -1: it went in between.
int open_lock(const std::string& flag, const std::string& folder, const std::string& path, bool& made) {
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::open(path.c_str(), flags | O_CREAT | O_EXCL, 0666);
  made = fd >= 0;
  if (fd < 0 && errno == EEXIST) fd = ::open(path.c_str(), flags);
  if (fd < 0 && errno == ENOENT) return -1;
  struct stat status {};
  const bool regular = fd >= 0 && ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (fd >= 0 && regular) return fd;
  const int reason = errno;
  if (fd >= 0) ::close(fd);
  if (fd >= 0 || reason == EISDIR || reason == ELOOP || reason == ENXIO) {
    throw InputError(
        fmt::format("{} {}: {} is in the way of the file that tells other runs of this one: move it: "
                    "mv {} {}",
                    flag, folder, path, shell_word(path), shell_word(path + ".old")));
  }
  throw InputError(
      fmt::format("{} {}: nothing can be written there: {}: {}", flag, folder, path, std::strerror(reason)));
}

enum class Taken { yes, no, unknown };

Taken take(int fd) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Taken::no;
    if (errno != EINTR) return Taken::unknown;  // a file system without locks
  }
  return Taken::yes;
}

/// What the file says, once it says it: whoever has made it needs a moment to write.
std::string settled_text(int fd) {
  constexpr int attempts = 40;
  std::string text = read_lock(fd);
  for (int i = 0; i < attempts && !parse_lock(text) && is_lock_text(text); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    text = read_lock(fd);
  }
  return text;
}

bool is_still_there(int fd, const std::string& path) {
  struct stat ours {};
  struct stat there {};
  return ::fstat(fd, &ours) == 0 && ::lstat(path.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
         ours.st_ino == there.st_ino;
}

}  // namespace

MadeFolder::MadeFolder(const std::string& flag, const std::string& path) {
  std::vector<std::string> missing;
  std::error_code error;
  for (fs::path each = fs::absolute(path).lexically_normal(); !fs::exists(each, error);
       each = each.parent_path()) {
    if (error || each == each.parent_path()) break;
    if (!each.filename().empty()) missing.push_back(each.string());
  }
  for (auto each = missing.rbegin(); each != missing.rend(); ++each) {
    if (::mkdir(each->c_str(), 0777) == 0) {
      made_.push_back(*each);
    } else if (errno != EEXIST) {
      const int reason = errno;
      remove_empty();
      throw InputError(fmt::format("{} {}: nothing can be written there: {}: {}", flag, path, *each,
                                   std::strerror(reason)));
    }
  }
  if (!fs::is_directory(path, error)) {
    throw InputError(fmt::format("{} {}: nothing can be written there: {}; name a folder", flag, path,
                                 error ? error.message() : "it is not a folder"));
  }
}

MadeFolder::~MadeFolder() {
  remove_empty();
}

void MadeFolder::remove_empty() {
  for (auto each = made_.rbegin(); each != made_.rend(); ++each) ::rmdir(each->c_str());
}

SaveLock::SaveLock(const std::string& flag, const std::string& folder)
    : folder_(folder), path_(folder + "/" + save_lock_name) {
  while (!try_take(flag)) {
  }
}

/// False where the file went in between: its holder has ended.
bool SaveLock::try_take(const std::string& flag) {
  bool made = false;
  fd_ = open_lock(flag, folder_, path_, made);
  if (fd_ < 0) {
    if (!fs::is_directory(folder_)) {
      throw InputError(
          fmt::format("{} {}: nothing can be written there: another run has removed it", flag, folder_));
    }
    return false;
  }
  const auto give_up = [&](const std::optional<Holder>& holder) {
    ::close(std::exchange(fd_, -1));
    refuse(flag, folder_, path_, holder);
  };
  const Taken taken = take(fd_);
  const bool wait = taken == Taken::no || (taken == Taken::unknown && !made);
  const std::string text = wait ? settled_text(fd_) : read_lock(fd_);
  const std::optional<Holder> holder = parse_lock(text);
  if (!is_still_there(fd_, path_)) {
    ::close(std::exchange(fd_, -1));
    return false;
  }
  if (taken == Taken::no) give_up(holder);
  if (!is_lock_text(text)) {
    ::close(std::exchange(fd_, -1));
    throw InputError(
        fmt::format("{} {}: {} is a file of somebody else's, in the way of the one that tells other "
                    "runs of this one: move it: mv {} {}",
                    flag, folder_, path_, shell_word(path_), shell_word(path_ + ".old")));
  }
  if (holder && holder->host != host_name()) give_up(holder);
  if (taken == Taken::unknown && holder && lives(*holder)) give_up(holder);
  if (holder) taken_over_ = holder->text();
  const std::string own = own_text();
  if (::ftruncate(fd_, 0) != 0 || !write_whole(fd_, own.data(), static_cast<std::int64_t>(own.size()), 0)) {
    const int reason = errno;
    release();
    throw InputError(fmt::format("{} {}: nothing can be written there: {}: {}", flag, folder_, path_,
                                 std::strerror(reason)));
  }
  return true;
}

SaveLock::~SaveLock() {
  release();
}

void SaveLock::release() {
  if (fd_ < 0) return;
  if (is_still_there(fd_, path_)) ::unlink(path_.c_str());
  ::close(std::exchange(fd_, -1));
}

}  // namespace zero1::ckpt
