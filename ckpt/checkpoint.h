// Reads a checkpoint by logical element: (parameter, state, range).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/checkpoint_file.h"
#include "ckpt/folder.h"
#include "core/data/input_file.h"

namespace zero1::ckpt {

/// Where elements come from: a checkpoint, or files of another format. `param` is an index into the
/// parameter list that both sides share. Any number of threads may read at once.
class ElementSource {
 public:
  virtual ~ElementSource() = default;
  /// Writes param_range.size() elements to `out`.
  virtual void read(int param, State state, Range param_range, float* out) const = 0;
};

/// Whether reading compares every slice that it touches with its digest, once, before the first element of it
/// is handed out. It reads whole slices for that.
enum class Digests { check, trust };

/// One published checkpoint, opened. While it lives, pruning leaves the folder alone.
class Checkpoint : public ElementSource {
 public:
  /// `source` as resolve_source takes it. Throws InputError as read_checkpoint_file does; what the ranks'
  /// files hold is looked at when they are read.
  explicit Checkpoint(const std::string& source, std::optional<std::int64_t> step = {},
                      Digests digests = Digests::check);
  ~Checkpoint() override;

  const std::string& folder() const { return folder_.path(); }
  const RunState& state() const { return contents_.state; }
  const LayoutCase& layout_case() const { return contents_.layout_case; }
  const Layout& layout() const { return contents_.layout; }
  const std::vector<RankFileRecord>& files() const { return contents_.files; }
  const std::vector<SliceRecord>& slices() const { return contents_.slices; }
  const SliceRecord& slice(int rank, int buffer, int bucket, State state) const;

  /// The parameter's index, or nothing.
  std::optional<int> find(std::string_view name) const;

  /// Throws InputError naming the rank's file when it is missing or of another size than was recorded, and
  /// the slice when its bytes are not those that were written.
  void read(int param, State state, Range param_range, float* out) const override;

 private:
  struct Checked;
  void check_digests(const InputFile& file, const SliceRecord& slice) const;

  FolderInUse folder_;
  CheckpointContents contents_;
  std::unique_ptr<Checked> checked_;  ///< what has been compared already; null: nothing is
};

/// A slice as messages name it: "/buffers/0/buckets/3/exp_avg".
std::string slice_path(const SliceRecord& slice);

}  // namespace zero1::ckpt
