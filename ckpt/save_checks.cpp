#include "ckpt/save_checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ckpt/folder.h"
#include "ckpt/write.h"
#include "core/base/error.h"
#include "core/base/file_io.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace zero1::ckpt {
namespace {

namespace fs = std::filesystem;

/// HDF5's own bytes, as measured and rounded up: of a rank's file, of each bucket in it, of checkpoint.h5, of
/// each parameter in that.
constexpr std::int64_t file_bytes = 6 << 10;
constexpr std::int64_t bucket_bytes = 3 << 10;
constexpr std::int64_t view_bytes = 8 << 10;
constexpr std::int64_t param_bytes = 2560;

class Checks {
 public:
  Checks(const SaveOptions& options, const TrainConfig& config)
      : options_(options), root_(options.folder), last_step_(config.train_iters) {
    Layout layout = run_shape(config).layout;
    if (!config.data_parallel.use_distributed_optimizer) {
      LayoutOptions one_rank = layout.options;
      one_rank.dp_size = one_rank.expert_dp_size = 1;
      layout = compute_layout(layout.specs, one_rank);
    }
    needed_bytes_ = checkpoint_bytes(layout);
    for (int rank = 0; rank < rank_count(layout); ++rank) {
      std::int64_t elems = 0;
      for (const SliceRecord& slice : slices_of_rank(layout, rank)) elems += slice.elems;
      rank_bytes_.push_back(elems * static_cast<std::int64_t>(sizeof(float)));
    }
  }

  void run() {
    check_link(latest_name);
    if (options_.best) check_link(best_name);
    check_steps();
    check_base();
    check_space();
    try_saving();
  }

 private:
  template <class... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> text, Values&&... values) const {
    throw InputError(fmt::format("--save {}: {}", root_, fmt::format(text, std::forward<Values>(values)...)));
  }
  [[noreturn]] void refuse_errno(const char* what) const {
    const int reason = errno;
    refuse("nothing can be saved there: {}: {}", what, std::strerror(reason));
  }

  std::string move_away(const std::string& path) const {
    return fmt::format("mv {} {}", shell_word(path), shell_word(path + ".old"));
  }

  void check_link(std::string_view name) const {
    std::error_code ignored;
    const std::string path = fmt::format("{}/{}", root_, name);
    const fs::file_status status = fs::symlink_status(path, ignored);
    if (!fs::exists(status) || fs::is_symlink(status)) return;
    refuse("{} is a {}; this run's saves make it a link to a step's folder. Move it: {}", path,
           fs::is_directory(status) ? "folder" : "file", move_away(path));
  }

  /// Where a step is to lie there may be a checkpoint, which is exchanged, and nothing else.
  void check_steps() {
    std::error_code error;
    for (fs::directory_iterator it(root_, error), end; !error && it != end; it.increment(error)) {
      const auto step = step_of(it->path().filename().string());
      if (!step || *step <= options_.base.step || *step > last_step_) continue;
      check_step(it->path().string());
    }
  }

  void check_step(const std::string& path) {
    std::error_code ignored;
    const fs::file_status status = fs::symlink_status(path, ignored);
    const auto in_the_way = [&](const char* what) {
      refuse("{} is {}, where this run may save that step. Move it: {}", path, what, move_away(path));
    };
    if (fs::is_symlink(status)) in_the_way("a link");
    if (!fs::is_directory(status)) in_the_way("no folder");
    if (is_checkpoint(path))
      replaces_ = true;
    else if (!fs::is_empty(path, ignored))
      in_the_way("a folder without a checkpoint.h5");
  }

  /// A new run from a checkpoint's weights comes to that one's step again.
  void check_base() const {
    const SaveBase& base = options_.base;
    std::error_code none;
    if (base.folder.empty() || base.loaded_step <= base.step || base.loaded_step > last_step_) return;
    if (!fs::equivalent(base.folder, root_ + "/" + step_folder_name(base.loaded_step), none)) return;
    refuse(
        "this run begins at step {} and would replace step {}, whose parameters it begins with: save into "
        "another folder",
        base.step, base.loaded_step);
  }

  void refuse_space(std::int64_t available_bytes) const {
    refuse(
        "one checkpoint of this run takes about {}, but only {} are available there: make room, or save into "
        "another folder",
        format_bytes(needed_bytes_), format_bytes(available_bytes));
  }

  void check_space() const {
    struct statvfs file_system {};
    if (::statvfs(root_.c_str(), &file_system) == 0 && file_system.f_blocks > 0) {
      const double available =
          static_cast<double>(file_system.f_bavail) * static_cast<double>(file_system.f_frsize);
      if (available < static_cast<double>(needed_bytes_)) refuse_space(static_cast<std::int64_t>(available));
      const std::size_t files = rank_bytes_.size() + 4;  // and checkpoint.h5, two folders, a link
      if (file_system.f_files > 0 && file_system.f_favail < files)
        refuse("a checkpoint takes {} files, but only {} more can be made there", files,
               file_system.f_favail);
    }
    struct rlimit limit {};
    const std::int64_t largest = *std::max_element(rank_bytes_.begin(), rank_bytes_.end());
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < static_cast<rlim_t>(largest)) {
      refuse("a checkpoint's largest file takes {}, but no file may grow beyond {} (ulimit -f)",
             format_bytes(largest), format_bytes(static_cast<std::int64_t>(limit.rlim_cur)));
    }
  }

  /// What a save does, small, in a hidden folder that goes again.
  void try_saving() const {
    const PendingFolder trial(root_ + "/" + step_folder_name(last_step_));
    const std::string folder = trial.path() + "/folder";
    const std::string renamed = trial.path() + "/renamed";
    const std::string link = trial.path() + "/link";
    if (::mkdir(folder.c_str(), 0777) != 0) refuse_errno("a folder cannot be made");
    reserve(folder);
    if (::rename(folder.c_str(), renamed.c_str()) != 0) refuse_errno("a folder cannot be renamed");
    if (::symlink("renamed", link.c_str()) != 0) refuse_errno("a symbolic link cannot be made");
    if (::rename(link.c_str(), (link + "2").c_str()) != 0) refuse_errno("a symbolic link cannot be renamed");
    if (!replaces_) return;
    if (::mkdir(folder.c_str(), 0777) != 0) refuse_errno("a folder cannot be made");
    if (!swap_paths(folder, renamed)) {
      refuse(
          "steps of this run are there already, and this file system cannot exchange two folders in one "
          "step: "
          "save into another folder");
    }
  }

  /// Asks the file system for one checkpoint's room: quotas count here, which the free space does not show.
  /// Some have no such call; in memory it would take the memory.
  void reserve(const std::string& folder) const {
    struct statfs file_system {};
    const bool in_memory = ::statfs(folder.c_str(), &file_system) == 0 &&
                           (file_system.f_type == TMPFS_MAGIC || file_system.f_type == RAMFS_MAGIC);
    for (std::size_t rank = 0; rank < rank_bytes_.size(); ++rank) {
      const std::string path = folder + "/" + rank_file_name(static_cast<int>(rank));
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd < 0) refuse_errno("a file cannot be made");
      int failure = 0;
      if (!in_memory && rank_bytes_[rank] > 0 && ::fallocate(fd, 0, 0, rank_bytes_[rank]) != 0)
        failure = errno;
      if (rank == 0 && failure == 0) {
        constexpr char byte = 1;
        if (!write_whole(fd, &byte, 1, 0)) failure = errno;
      }
      ::close(fd);
      if (failure != ENOSPC && failure != EDQUOT) continue;
      refuse(
          "one checkpoint of this run takes about {}, and the file system refuses to reserve that: {}: make "
          "room, or save into another folder",
          format_bytes(needed_bytes_), std::strerror(failure));
    }
  }

  const SaveOptions& options_;
  const std::string& root_;
  std::int64_t last_step_;
  std::int64_t needed_bytes_ = 0;
  std::vector<std::int64_t> rank_bytes_;
  bool replaces_ = false;  ///< a step of the run is there already
};

}  // namespace

std::int64_t checkpoint_bytes(const Layout& layout) {
  return slice_bytes(layout) + rank_count(layout) * (file_bytes + layout.bucket_count() * bucket_bytes) +
         view_bytes + static_cast<std::int64_t>(layout.specs.size()) * param_bytes;
}

void check_can_save(const SaveOptions& options, const TrainConfig& config) {
  Checks(options, config).run();
}

}  // namespace zero1::ckpt
