#include "ckpt/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "ckpt/digests.h"
#include "ckpt/pieces.h"
#include "core/base/error.h"
#include "core/base/units.h"

namespace zero1::ckpt {

namespace {

void check_size(const InputFile& file, const RankFileRecord& record) {
  if (file.size_bytes() == record.bytes) return;
  throw InputError(
      fmt::format("{}: {}, where {} were recorded: it was cut or added to, or is of another checkpoint; see "
                  "`zero1 ckpt verify`",
                  file.path(), counted(file.size_bytes(), "byte"), format_count(record.bytes)));
}

}  // namespace

/// Each lock guards the slices and the files whose numbers leave its number as remainder.
struct Checkpoint::Checked {
  Checked(std::size_t slice_count, std::size_t file_count) : slices(slice_count), files(file_count) {}

  /// Runs `check` unless it has passed before. What two threads want at once is checked by one of them.
  template <class Check>
  void once(std::vector<char>& done, std::size_t index, Check&& check) {
    const std::lock_guard lock(locks[index % locks.size()]);
    if (done[index] != 0) return;
    check();
    done[index] = 1;
  }

  std::array<std::mutex, 64> locks;
  std::vector<char> slices;
  std::vector<char> files;
};

Checkpoint::Checkpoint(const std::string& source, std::optional<std::int64_t> step, Digests digests)
    : folder_(open_source(source, step)), contents_(read_checkpoint_file(folder_)) {
  if (digests == Digests::check)
    checked_ = std::make_unique<Checked>(contents_.slices.size(), contents_.files.size());
}

Checkpoint::~Checkpoint() = default;

const SliceRecord& Checkpoint::slice(int rank, int buffer, int bucket, State state) const {
  return contents_
      .slices[static_cast<std::size_t>(slice_index(contents_.layout, rank, buffer, bucket, state))];
}

std::optional<int> Checkpoint::find(std::string_view name) const {
  const std::vector<ParamSpec>& specs = contents_.layout.specs;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    if (specs[p].name == name) return static_cast<int>(p);
  }
  return std::nullopt;
}

std::string slice_path(const SliceRecord& slice) {
  return fmt::format("/buffers/{}/buckets/{}/{}", slice.buffer, slice.bucket,
                     name(static_cast<State>(slice.state)));
}

void Checkpoint::check_digests(const InputFile& file, const SliceRecord& slice) const {
  const auto read_at = [&](std::int64_t at, void* to, std::int64_t bytes) { file.read_at(at, to, bytes); };
  const auto rank = static_cast<std::size_t>(slice.rank);
  checked_->once(checked_->files, rank, [&] {
    const auto first =
        contents_.slices.begin() + slice_index(contents_.layout, slice.rank, 0, 0, State::param);
    const auto last = std::find_if(first, contents_.slices.end(),
                                   [&](const SliceRecord& each) { return each.rank != slice.rank; });
    if (frame_digest({first, last}, file.size_bytes(), read_at) == contents_.files[rank].frame_digest) return;
    throw InputError(fmt::format(
        "{}: bytes outside the slices (HDF5's own) are not those that were written; see `zero1 ckpt verify`",
        file.path()));
  });
  const auto index = static_cast<std::size_t>(&slice - contents_.slices.data());
  checked_->once(checked_->slices, index, [&] {
    if (slice_digest(slice, read_at, [](const float*, std::int64_t, std::int64_t) {}) == slice.digest) return;
    throw InputError(
        fmt::format("{}: {}: its bytes are not those that were written: it was changed or damaged; see "
                    "`zero1 ckpt verify`",
                    file.path(), slice_path(slice)));
  });
}

void Checkpoint::read(int param, State state, Range param_range, float* out) const {
  for_each_piece(contents_.layout, param, param_range, [&](const Piece& piece) {
    // Opened anew each time: a run may have more ranks than a process may have files.
    const InputFile file = folder_.open(rank_file_name(piece.rank));
    check_size(file, contents_.files[static_cast<std::size_t>(piece.rank)]);
    const SliceRecord& slice = this->slice(piece.rank, piece.buffer, piece.bucket, state);
    if (checked_) check_digests(file, slice);
    file.read_at(slice.offset_bytes + piece.local.start * elem_bytes,
                 out + (piece.param_range.start - param_range.start), piece.local.size() * elem_bytes);
  });
}

}  // namespace zero1::ckpt
