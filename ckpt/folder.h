// Checkpoints as folders: how one appears whole or not at all, which is the latest, what a crash left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/input_file.h"

namespace zero1::ckpt {

/// A checkpoint under construction: the hidden folder ".tmp-NAME.PID.N" beside its place. While this lives
/// the folder is locked, so that `clean` does not take it for a leftover.
class PendingFolder {
 public:
  /// Creates the folder for `target` and its parents. Throws InputError when that cannot be.
  explicit PendingFolder(std::string target);
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  ~PendingFolder();  ///< unless published, removes the folder

  const std::string& path() const { return path_; }
  const std::string& target() const { return target_; }

  /// A file of this folder, flushed already, gets the path `to` in one step, and that is flushed. Throws
  /// Error.
  void publish_file(const std::string& name, const std::string& to);

  /// The files have been flushed: flushes the folder, renames it to its place in one step and flushes
  /// that. A folder that lies there already is exchanged in one step and removed afterwards.
  void publish();

 private:
  std::string target_;
  std::string path_;
  int fd_ = -1;
};

/// A published checkpoint that is being read: pruning leaves it alone while this lives, and its files are
/// found also when the same step is saved again and takes its place.
class FolderInUse {
 public:
  explicit FolderInUse(std::string path);  ///< throws InputError when it is not a folder
  FolderInUse(FolderInUse&& other) noexcept;
  FolderInUse(const FolderInUse&) = delete;
  FolderInUse& operator=(const FolderInUse&) = delete;
  FolderInUse& operator=(FolderInUse&&) = delete;
  ~FolderInUse();

  const std::string& path() const { return path_; }
  /// Throws InputError as InputFile does; a link is refused.
  InputFile open(const std::string& name) const { return InputFile::in_folder(fd_, path_, name); }
  bool has(const std::string& name) const;

 private:
  std::string path_;
  int fd_ = -1;
};

/// The steps with a published folder in `root`, ascending.
std::vector<std::int64_t> published_steps(const std::string& root);

/// The step that a folder's name says, "step_00000100"; nothing for any other name.
std::optional<std::int64_t> step_of(const std::string& name);

/// Whether a folder is a published checkpoint.
bool is_checkpoint(const std::string& folder);

/// The links of a folder of checkpoints: the last one that a run has saved, and the one with the least loss
/// on validation data.
inline constexpr std::string_view latest_name = "latest";
inline constexpr std::string_view best_name = "best";

/// Makes ROOT/NAME a symbolic link to `step`'s folder, in one step.
void set_link(const std::string& root, std::string_view name, std::int64_t step);

/// The step that ROOT/NAME names; nothing where it is no link to one, there or not.
std::optional<std::int64_t> linked_step(const std::string& root, std::string_view name);

/// Removes a published checkpoint, so that a kill leaves no half of it under its name. False where somebody
/// reads it, or it cannot be.
bool remove_published(const std::string& root, std::int64_t step);

/// Exchanges two paths in one step; false where the file system cannot.
bool swap_paths(const std::string& a, const std::string& b);

/// Whether a process is at work in a hidden folder; unknown where the file system has no locks.
enum class FolderUse { none, writing, unknown };

/// What a killed process left behind in a folder of checkpoints, or beside a single checkpoint.
struct Leftover {
  std::string path;
  std::int64_t bytes = 0;
  FolderUse use = FolderUse::none;
};
std::vector<Leftover> find_leftovers(const std::string& root);

/// Removes those in which no process is at work, also those of which that is unknown when `unknown_too`.
void remove_leftovers(const std::vector<Leftover>& leftovers, bool unknown_too = false);

/// SRC may be one checkpoint or a folder of them; of these `step`, or the latest. The checkpoint's folder.
/// Throws InputError that lists the steps that are there.
std::string resolve_source(const std::string& source, std::optional<std::int64_t> step = {});

/// The same, opened: also while another process publishes and prunes.
FolderInUse open_source(const std::string& source, std::optional<std::int64_t> step = {});

}  // namespace zero1::ckpt
