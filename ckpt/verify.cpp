#include "ckpt/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "ckpt/checkpoint.h"
#include "ckpt/digests.h"
#include "ckpt/state_rules.h"
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
    check_step_count();
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
        const bool has_first_moments = row > 0 && salvaged_.slice_is_consistent[row - 1];
        check_slice(file, slice, has_first_moments ? &contents_.slices[row - 1] : nullptr);
      } catch (const Error& error) {
        add(error.what());
      }
    }
  }

  /// A kind of impossible values of one slice: how many there are, and the first.
  struct Finding {
    const char* what;
    std::int64_t count = 0;
    std::int64_t first = -1;  ///< local index

    void add(std::int64_t local) {
      if (count++ == 0) first = local;
    }
  };

  /// `exp_avg`: the first moments of a slice of second moments, where they can be read.
  void check_slice(const InputFile& file, const SliceRecord& slice, const SliceRecord* exp_avg) {
    const auto state = static_cast<State>(slice.state);
    Finding non_finite{"not finite"};
    Finding negative{"negative, which an average of squares cannot be"};
    Finding lost{"0 where exp_avg is not, which AdamW never leaves"};
    const std::uint64_t found = slice_digest(
        slice, [&](std::int64_t at, void* to, std::int64_t bytes) { file.read_at(at, to, bytes); },
        [&](const float* values, std::int64_t first, std::int64_t count) {
          const ValueKinds kinds = kinds_of(values, count);
          for (std::int64_t i = 0; i < count && (kinds.non_finite || kinds.negative); ++i) {
            if (!is_finite(values[i])) non_finite.add(first + i);
            if (state == State::exp_avg_sq && values[i] < 0) negative.add(first + i);
          }
          any_moment_ = any_moment_ || (state != State::param && kinds.non_zero);
          any_second_moment_ = any_second_moment_ || (state == State::exp_avg_sq && kinds.non_zero);
          if (state == State::exp_avg_sq && kinds.zero && exp_avg != nullptr)
            find_lost(file, *exp_avg, values, {first, first + count}, lost);
        });
    ++report_.slices;
    if (state == State::exp_avg_sq && slice.elems > 0) has_second_moments_ = true;
    if (found != slice.digest) {
      add(fmt::format("{}: {}: its bytes do not match the recorded digest", file.path(), slice_path(slice)));
    }
    for (const Finding& each : {non_finite, negative, lost}) {
      if (each.count == 0) continue;
      add(fmt::format("{}: {}: {} values are {}, the first is {}", file.path(), slice_path(slice), each.count,
                      each.what, describe_element(slice, each.first)));
    }
  }

  void find_lost(const InputFile& file, const SliceRecord& exp_avg, const float* exp_avg_sq, Range local,
                 Finding& lost) {
    if (!second_moment_decays_slower(contents_.state)) return;
    std::vector<float> first(static_cast<std::size_t>(local.size()));
    file.read_at(exp_avg.offset_bytes + local.start * elem_bytes, first.data(), local.size() * elem_bytes);
    for (std::int64_t i = 0; i < local.size(); ++i) {
      if (exp_avg_sq[i] == 0 && needs_second_moment(first[static_cast<std::size_t>(i)]))
        lost.add(local.start + i);
    }
  }

  /// AdamW's step count and its moments belong together.
  void check_step_count() {
    if (!salvaged_.has_state) return;
    const std::int64_t steps = contents_.state.optimizer_steps;
    const std::string path = fmt::format("{}/{}: /state", folder_.path(), checkpoint_file_name);
    if (steps == 0 && any_moment_)
      add(path + ": AdamW has made no step, but there are moments that are not 0");
    const bool seen_all = report_.slices == static_cast<std::int64_t>(contents_.slices.size());
    if (steps > 0 && seen_all && has_second_moments_ && !any_second_moment_) {
      add(fmt::format("{}: AdamW has made {}, but every second moment is 0", path, counted(steps, "step")));
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
  bool has_second_moments_ = false;
  bool any_moment_ = false;  ///< that is not 0
  bool any_second_moment_ = false;
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
