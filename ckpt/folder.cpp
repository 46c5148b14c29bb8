#include "ckpt/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

#include "ckpt/format.h"
#include "ckpt/shared_lock.h"
#include "core/base/error.h"
#include "core/base/file_io.h"

namespace zero1::ckpt {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view temporary_prefix = ".tmp-";
constexpr std::string_view latest_name = "latest";

/// Distinguishes the temporary folders of one process.
std::atomic<int> next_serial{0};

int open_folder(const std::string& path, int flags = 0) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
}

bool locked_by_other(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

/// Swaps two paths in one step; false where the file system cannot.
bool swap_paths(const std::string& a, const std::string& b) {
  constexpr unsigned rename_exchange = 2;
  return ::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), rename_exchange) == 0;
}

std::string temporary_beside(const std::string& target) {
  const fs::path path(target);
  return fmt::format("{}/{}{}.{}.{}", parent_folder(target), temporary_prefix, path.filename().string(),
                     ::getpid(), next_serial++);
}

void remove_folder(const std::string& path) {
  std::error_code ignored;  // what stays is reported as a leftover
  fs::remove_all(path, ignored);
}

FolderUse use_of(const std::string& path) {
  const int fd = open_folder(path, O_NOFOLLOW);
  if (fd < 0) return FolderUse::none;
  const bool taken = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  const FolderUse use = taken                  ? FolderUse::none
                        : errno == EWOULDBLOCK ? FolderUse::writing
                                               : FolderUse::unknown;
  ::close(fd);
  return use;
}

std::int64_t bytes_below(const std::string& path) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const auto size = it->is_regular_file(ignored) ? it->file_size(ignored) : 0;
    if (!ignored) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

/// The step of "step_00000100"; nothing for any other name.
std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view prefix = "step_";
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + prefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || name != step_folder_name(step)) return std::nullopt;
  return step;
}

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(folder + "/" + std::string(checkpoint_file_name), ignored);
}

std::vector<std::int64_t> published_steps(const std::string& root, std::error_code& error) {
  std::vector<std::int64_t> steps;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const auto step = step_of(it->path().filename().string());
    if (step && is_checkpoint(it->path().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// What lies at `path`, links followed. Throws InputError where that cannot be told: without permission, with
/// links that go round in circles.
fs::file_type type_at(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type != fs::file_type::none) return type;
  throw InputError(fmt::format("{}: cannot be opened: {}", path, error.message()));
}

/// is_checkpoint(), where a folder that may not be searched is an error and not one without a checkpoint.
bool holds_checkpoint(const std::string& folder) {
  return type_at(folder + "/" + std::string(checkpoint_file_name)) != fs::file_type::not_found;
}

/// The checkpoint that holds `path`, at any depth; empty: none.
std::string checkpoint_around(const std::string& path) {
  std::error_code ignored;
  for (fs::path folder = fs::weakly_canonical(parent_folder(path), ignored); !folder.empty();
       folder = folder.parent_path()) {
    if (is_checkpoint(folder.string()) && fs::exists(folder / rank_file_name(0), ignored))
      return folder.string();
    if (folder == folder.parent_path()) break;
  }
  return "";
}

}  // namespace

PendingFolder::PendingFolder(std::string target) : target_(std::move(target)) {
  while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
  const auto refuse = [&](const std::string& reason) {
    throw InputError(fmt::format("{}: nothing can be written there: {}", target_, reason));
  };
  if (const std::string around = checkpoint_around(target_); !around.empty()) {
    refuse(fmt::format("it lies inside the checkpoint {}, which would no longer be whole", around));
  }
  std::error_code error;
  fs::create_directories(parent_folder(target_), error);
  if (error) refuse(error.message());
  while (fd_ < 0) {
    path_ = temporary_beside(target_);
    if (::mkdir(path_.c_str(), 0777) != 0) refuse(std::strerror(errno));
    fd_ = open_folder(path_);
    if (fd_ < 0) continue;
    // Whoever cleans up may have been faster than the lock, and has removed the folder then.
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
    struct stat status {};
    if (::fstat(fd_, &status) == 0 && status.st_nlink == 0) ::close(std::exchange(fd_, -1));
  }
}

PendingFolder::~PendingFolder() {
  if (fd_ < 0) return;
  remove_folder(path_);
  ::close(fd_);
}

void PendingFolder::publish_file(const std::string& name, const std::string& to) {
  if (std::rename((path_ + "/" + name).c_str(), to.c_str()) != 0) fail(to, "cannot be put in its place");
  flush_folder(parent_folder(to));
}

void PendingFolder::publish() {
  if (::fsync(fd_) != 0 && errno != EINVAL) fail(path_, "cannot be flushed to disk");
  bool replaced = false;
  if (::rename(path_.c_str(), target_.c_str()) != 0) {
    // A folder that is not empty lies there: the same step, saved before.
    const bool occupied = errno == ENOTEMPTY || errno == EEXIST;
    if (!occupied || !is_checkpoint(target_)) fail(target_, "the checkpoint cannot be renamed to its place");
    if (!swap_paths(path_, target_)) {
      fail(target_, "a checkpoint is there and this file system cannot exchange it in one step; remove it");
    }
    replaced = true;
  }
  ::flock(fd_, LOCK_UN);  // whoever reads it need not wait for the disk
  flush_folder(parent_folder(target_));
  ::close(std::exchange(fd_, -1));
  if (!replaced) return;
  // The replaced checkpoint; where somebody reads it, it stays as a leftover.
  const int old = open_folder(path_);
  if (old >= 0 && !locked_by_other(old)) remove_folder(path_);
  if (old >= 0) ::close(old);
}

FolderInUse::FolderInUse(std::string path) : path_(std::move(path)), fd_(open_folder(path_)) {
  if (fd_ < 0) throw InputError(fmt::format("{}: cannot be opened: {}", path_, std::strerror(errno)));
  try {
    lock_shared(fd_, path_);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

FolderInUse::FolderInUse(FolderInUse&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

bool FolderInUse::has(const std::string& name) const {
  return ::faccessat(fd_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

FolderInUse::~FolderInUse() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<std::int64_t> published_steps(const std::string& root) {
  std::error_code ignored;
  return published_steps(root, ignored);
}

void set_latest(const std::string& root, std::int64_t step) {
  PendingFolder pending(root + "/" + std::string(latest_name));
  std::error_code error;
  fs::create_symlink(step_folder_name(step), pending.path() + "/" + std::string(latest_name), error);
  if (error) throw Error(fmt::format("{}: cannot be set: {}", pending.target(), error.message()));
  pending.publish_file(std::string(latest_name), pending.target());
}

void prune(const std::string& root, std::int64_t keep_last) {
  const std::vector<std::int64_t> steps = published_steps(root);
  std::error_code ignored;
  const std::string latest = fs::read_symlink(root + "/" + std::string(latest_name), ignored).string();
  const auto keep = static_cast<std::size_t>(std::max<std::int64_t>(keep_last, 1));
  for (std::size_t i = 0; i + keep < steps.size(); ++i) {
    const std::string name = step_folder_name(steps[i]);
    const std::string path = root + "/" + name;
    if (name == latest) continue;
    // The lock is held to the end: a reader that comes now waits, finds the folder gone and looks again.
    const int fd = open_folder(path);
    if (fd < 0) continue;
    const bool being_read = locked_by_other(fd);
    // Renamed first, so that a kill in between leaves no half of a checkpoint under its name.
    const std::string doomed = temporary_beside(path);
    if (!being_read && std::rename(path.c_str(), doomed.c_str()) == 0) remove_folder(doomed);
    ::close(fd);
  }
}

std::vector<Leftover> find_leftovers(const std::string& root) {
  std::vector<Leftover> leftovers;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(temporary_prefix)) continue;
    const std::string path = it->path().string();
    leftovers.push_back({path, bytes_below(path), use_of(path)});
  }
  std::sort(leftovers.begin(), leftovers.end(),
            [](const Leftover& a, const Leftover& b) { return a.path < b.path; });
  return leftovers;
}

void remove_leftovers(const std::vector<Leftover>& leftovers, bool unknown_too) {
  for (const Leftover& leftover : leftovers) {
    if (leftover.use == FolderUse::writing || (leftover.use == FolderUse::unknown && !unknown_too)) continue;
    // Locked meanwhile, so that nobody begins to write there.
    const int fd = open_folder(leftover.path, O_NOFOLLOW);
    std::error_code error;
    if (fd < 0 || !locked_by_other(fd)) fs::remove_all(leftover.path, error);
    if (fd >= 0) ::close(fd);
    if (error) throw Error(fmt::format("{}: cannot be removed: {}", leftover.path, error.message()));
  }
}

/// Throws InputError for a folder with files of weights and no checkpoint: what helps is another command.
static void refuse_folder_of_weights(const std::string& folder) {
  bool weights = false;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_checkpoint(it->path().string())) return;
    weights = weights || it->path().extension() == ".safetensors";
  }
  if (!weights) return;
  throw InputError(fmt::format(
      "{}: holds no checkpoint, but .safetensors files: `zero1 ckpt import` makes a checkpoint of "
      "them, and `zero1 train --init` starts from them",
      folder));
}

std::string resolve_source(const std::string& source, std::optional<std::int64_t> step) {
  std::error_code ignored;
  const fs::file_type type = type_at(source);
  if (type == fs::file_type::regular) {
    const bool part = is_checkpoint(parent_folder(source));
    throw InputError(fmt::format("{}: is a file; {}", source,
                                 part ? "name the checkpoint that it belongs to: " + parent_folder(source)
                                      : "a checkpoint is a folder (`zero1 ckpt import` makes one of a "
                                        ".safetensors file)"));
  }
  if (type != fs::file_type::directory) {
    throw InputError(
        fmt::format("{}: {}; name a checkpoint or a folder of checkpoints", source,
                    type == fs::file_type::not_found ? "there is no such folder" : "is not a folder"));
  }
  if (holds_checkpoint(source)) {
    if (step) {
      throw InputError(fmt::format(
          "{}: is one checkpoint; --ckpt-step chooses among those of the folder that holds it", source));
    }
    return source;
  }
  refuse_folder_of_weights(source);
  const std::string latest = source + "/" + std::string(latest_name);
  const std::string chosen = step ? source + "/" + step_folder_name(*step) : latest;
  // The link is read once, so that all files come from one checkpoint while `latest` moves on.
  const std::string folder =
      step ? chosen : source + "/" + fs::read_symlink(latest, ignored).filename().string();
  if (folder != source + "/" && holds_checkpoint(folder)) return folder;
  std::error_code error;
  const std::vector<std::int64_t> steps = published_steps(source, error);
  if (error) throw InputError(fmt::format("{}: cannot be read: {}", source, error.message()));
  if (steps.empty()) throw InputError(fmt::format("{}: holds no checkpoint", source));
  throw InputError(fmt::format("{}: {}; there are: {}", source,
                               step ? fmt::format("has no checkpoint of step {}", *step)
                                    : std::string("`latest` names none; choose one with --ckpt-step"),
                               fmt::join(steps, ", ")));
}

FolderInUse open_source(const std::string& source, std::optional<std::int64_t> step) {
  // Between finding a folder and locking it a run may have pruned it; then `latest` has moved on.
  constexpr int attempts = 10;
  for (int attempt = 1;; ++attempt) {
    try {
      FolderInUse in_use(resolve_source(source, step));
      if (in_use.has(std::string(checkpoint_file_name)) || attempt == attempts) return in_use;
    } catch (const FolderLocked&) {
      throw;
    } catch (const InputError&) {
      if (attempt == attempts) throw;
    }
  }
}

}  // namespace zero1::ckpt
