#include "ckpt/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <optional>
#include <set>

#include "ckpt/checkpoint.h"
#include "ckpt/digests.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/layout/range_map.h"

namespace zero1::ckpt {
namespace {

/// Goes through all that checkpoint.h5 still tells of.
class Verifier {
 public:
  Verifier(const FolderInUse& folder, const SalvagedContents& salvaged, VerifyReport& report)
      : folder_(folder), salvaged_(salvaged), contents_(salvaged.contents), report_(report) {}

  void run() {
    if (!salvaged_.has_files) return;  // nor is it known how many there should be
    check_coverage();
    check_file_names();
    std::size_t first = 0;
    for (int rank = 0; rank < rank_count(contents_.layout); ++rank) {
      const std::size_t count = slices_of_rank(contents_.layout, rank).size();
      try {
        check_rank(rank, {first, first + count});
      } catch (const Error& error) {
        add(error.what());
      }
      first += count;
    }
  }

 private:
  /// Rows of the table of slices.
  struct Rows {
    std::size_t first, last;
  };

  void add(std::string fault) { report_.faults.push_back(std::move(fault)); }

  /// From the ranks' side: the rows of all ranks, put together, are each parameter exactly once.
  void check_coverage() {
    const Layout& layout = contents_.layout;
    std::vector<std::int64_t> covered(layout.specs.size(), 0);
    for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
      for (RangeMapWalker walker(layout, static_cast<int>(b)); !walker.done();) {
        for (const ParamShard& row : walker.next()) {
          std::int64_t& end = covered[static_cast<std::size_t>(row.param)];
          if (row.param_range.start != end) {
            add(fmt::format("{}: elements [{}, {}) are stored {}", spec(row.param).name,
                            std::min(end, row.param_range.start), std::max(end, row.param_range.start),
                            row.param_range.start > end ? "nowhere" : "twice"));
          }
          end = std::max(end, row.param_range.end);
        }
      }
    }
    for (std::size_t p = 0; p < covered.size(); ++p) {
      const ParamSpec& each = layout.specs[p];
      if (covered[p] == each.numel()) continue;
      add(fmt::format("{}: elements [{}, {}) are stored nowhere", each.name, covered[p], each.numel()));
    }
  }

  /// A file more than there are ranks is a rank doubled, or left from another checkpoint.
  void check_file_names() {
    std::set<std::string> expected{std::string(checkpoint_file_name)};
    for (int rank = 0; rank < rank_count(contents_.layout); ++rank) expected.insert(rank_file_name(rank));
    std::vector<std::string> found;
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder_.path(), error), end; !error && it != end;
         it.increment(error)) {
      if (expected.count(it->path().filename().string()) == 0) found.push_back(it->path().string());
    }
    std::sort(found.begin(), found.end());
    for (const std::string& path : found) add(fmt::format("{}: does not belong to this checkpoint", path));
  }

  bool all_consistent(Rows rows) const {
    const auto begin = salvaged_.slice_is_consistent.begin();
    return !salvaged_.slice_is_consistent.empty() &&
           std::find(begin + static_cast<std::ptrdiff_t>(rows.first),
                     begin + static_cast<std::ptrdiff_t>(rows.last),
                     false) == begin + static_cast<std::ptrdiff_t>(rows.last);
  }

  void check_rank(int rank, Rows rows) {
    const InputFile file = folder_.open(rank_file_name(rank));
    report_.bytes += file.size_bytes();
    const RankFileRecord& record = contents_.files[static_cast<std::size_t>(rank)];
    if (file.size_bytes() != record.bytes) {
      add(fmt::format("{}: {}, where {} were recorded: it was cut or added to", file.path(),
                      counted(file.size_bytes(), "byte"), format_count(record.bytes)));
    } else if (all_consistent(rows)) {
      const auto begin = contents_.slices.begin();
      const std::uint64_t found = frame_digest(
          {begin + static_cast<std::ptrdiff_t>(rows.first), begin + static_cast<std::ptrdiff_t>(rows.last)},
          record.bytes, [&](std::int64_t at, void* to, std::int64_t bytes) { file.read_at(at, to, bytes); });
      if (found != record.frame_digest) {
        add(fmt::format("{}: bytes outside the slices (HDF5's own) were changed", file.path()));
      }
    }
    for (std::size_t row = rows.first; row < rows.last && row < salvaged_.slice_is_consistent.size(); ++row) {
      const SliceRecord& slice = contents_.slices[row];
      if (!salvaged_.slice_is_consistent[row]) continue;
      if (slice.offset_bytes + slice.elems * static_cast<std::int64_t>(sizeof(float)) > file.size_bytes()) {
        add(fmt::format("{}: {}: lies beyond the end of the file, at least in part", file.path(),
                        slice_path(slice)));
        continue;
      }
      try {
        check_slice(file, slice);
      } catch (const Error& error) {
        add(error.what());
      }
    }
  }

  void check_slice(const InputFile& file, const SliceRecord& slice) {
    std::optional<std::int64_t> first_non_finite;
    std::int64_t non_finite = 0;
    const std::uint64_t found = slice_digest(
        slice, [&](std::int64_t at, void* to, std::int64_t bytes) { file.read_at(at, to, bytes); },
        [&](const float* values, std::int64_t first, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) {
            if ((std::bit_cast<std::uint32_t>(values[i]) & 0x7F800000u) != 0x7F800000u) continue;
            if (!first_non_finite) first_non_finite = first + i;
            ++non_finite;
          }
        });
    ++report_.slices;
    if (found != slice.digest) {
      add(fmt::format("{}: {}: its bytes do not match the recorded digest", file.path(), slice_path(slice)));
    }
    if (first_non_finite) {
      add(fmt::format("{}: {}: {} values are not finite, the first is {}", file.path(), slice_path(slice),
                      non_finite, describe_element(slice, *first_non_finite)));
    }
  }

  std::string describe_element(const SliceRecord& slice, std::int64_t local) const {
    RangeMapWalker walker(contents_.layout, slice.buffer, slice.rank);
    for (const ParamShard& row : walker.next()) {
      if (row.bucket != slice.bucket || !row.gbuf_local.contains(local)) continue;
      return fmt::format("{}[{}]", spec(row.param).name,
                         row.param_range.start + (local - row.gbuf_local.start));
    }
    return fmt::format("element {} of the slice, which is padding", local);
  }

  const ParamSpec& spec(int param) const { return contents_.layout.specs[static_cast<std::size_t>(param)]; }

  const FolderInUse& folder_;
  const SalvagedContents& salvaged_;
  const CheckpointContents& contents_;
  VerifyReport& report_;
};

}  // namespace

VerifyReport verify(const std::string& source, std::optional<std::int64_t> step) {
  const FolderInUse folder = open_source(source, step);
  VerifyReport report;
  report.folder = folder.path();
  try {
    const SalvagedContents salvaged = salvage_checkpoint_file(folder, report.faults);
    Verifier(folder, salvaged, report).run();
  } catch (const Error& error) {
    report.faults.push_back(error.what());
  }
  return report;
}

}  // namespace zero1::ckpt
