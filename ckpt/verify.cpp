#include "ckpt/verify.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "ckpt/checkpoint.h"
#include "ckpt/frame.h"
#include "core/base/error.h"
#include "core/layout/range_map.h"

namespace zero1::ckpt {
namespace {

constexpr std::int64_t elem_bytes = sizeof(float);

class Verifier {
 public:
  Verifier(const Checkpoint& checkpoint, VerifyReport& report) : checkpoint_(checkpoint), report_(report) {}

  void run() {
    check_coverage();
    check_file_names();
    std::size_t first = 0;
    for (int rank = 0; rank < static_cast<int>(checkpoint_.files().size()); ++rank) {
      std::size_t last = first;
      while (last < checkpoint_.slices().size() && checkpoint_.slices()[last].rank == rank) ++last;
      const std::vector<SliceRecord> slices(checkpoint_.slices().begin() + static_cast<std::ptrdiff_t>(first),
                                            checkpoint_.slices().begin() + static_cast<std::ptrdiff_t>(last));
      try {
        check_rank(rank, slices);
      } catch (const Error& error) {
        add(error.what());
      }
      first = last;
    }
  }

 private:
  void add(std::string fault) { report_.faults.push_back(std::move(fault)); }

  /// From the ranks' side: the rows of all ranks, put together, are each parameter exactly once.
  void check_coverage() {
    const Layout& layout = checkpoint_.layout();
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
    for (int rank = 0; rank < static_cast<int>(checkpoint_.files().size()); ++rank) {
      expected.insert(rank_file_name(rank));
    }
    for (const auto& entry : std::filesystem::directory_iterator(checkpoint_.folder())) {
      const std::string name = entry.path().filename().string();
      if (expected.count(name) == 0)
        add(fmt::format("{}: does not belong to this checkpoint", entry.path().string()));
    }
  }

  void check_rank(int rank, const std::vector<SliceRecord>& slices) {
    const RankFileRecord& record = checkpoint_.files()[static_cast<std::size_t>(rank)];
    const InputFile file(checkpoint_.rank_path(rank));
    if (file.size_bytes() != record.bytes) {
      add(fmt::format("{}: {} bytes, {} were recorded", file.path(), file.size_bytes(), record.bytes));
    } else {
      const std::uint64_t found =
          frame_digest(slices, record.bytes,
                       [&](std::int64_t at, void* to, std::int64_t bytes) { file.read_at(at, to, bytes); });
      if (found != record.frame_digest) {
        add(fmt::format("{}: bytes outside the slices (HDF5's own) were changed", file.path()));
      }
    }
    report_.bytes += file.size_bytes();
    for (const SliceRecord& slice : slices) {
      try {
        check_slice(file, slice);
      } catch (const Error& error) {
        add(error.what());
      }
    }
  }

  void check_slice(const InputFile& file, const SliceRecord& slice) {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                               XXH3_freeState);
    XXH3_64bits_reset(hash.get());
    std::optional<std::int64_t> first_non_finite;
    std::int64_t non_finite = 0;
    constexpr std::int64_t chunk_elems = 1 << 20;
    for (std::int64_t at = 0; at < slice.elems; at += chunk_elems) {
      chunk_.resize(static_cast<std::size_t>(std::min(chunk_elems, slice.elems - at)));
      const auto bytes = static_cast<std::int64_t>(chunk_.size()) * elem_bytes;
      file.read_at(slice.offset_bytes + at * elem_bytes, chunk_.data(), bytes);
      XXH3_64bits_update(hash.get(), chunk_.data(), static_cast<std::size_t>(bytes));
      for (std::size_t i = 0; i < chunk_.size(); ++i) {
        if ((std::bit_cast<std::uint32_t>(chunk_[i]) & 0x7F800000u) != 0x7F800000u) continue;
        if (!first_non_finite) first_non_finite = at + static_cast<std::int64_t>(i);
        ++non_finite;
      }
    }
    ++report_.slices;
    if (XXH3_64bits_digest(hash.get()) != slice.digest) {
      add(fmt::format("{}: {}: its bytes do not match the recorded digest", file.path(), describe(slice)));
    }
    if (first_non_finite) {
      add(fmt::format("{}: {}: {} values are not finite, the first is {}", file.path(), describe(slice),
                      non_finite, describe_element(slice, *first_non_finite)));
    }
  }

  std::string describe(const SliceRecord& slice) const {
    return fmt::format("/buffers/{}/buckets/{}/{}", slice.buffer, slice.bucket,
                       name(static_cast<State>(slice.state)));
  }

  std::string describe_element(const SliceRecord& slice, std::int64_t local) const {
    RangeMapWalker walker(checkpoint_.layout(), slice.buffer, slice.rank);
    for (const ParamShard& row : walker.next()) {
      if (row.bucket != slice.bucket || !row.gbuf_local.contains(local)) continue;
      return fmt::format("{}[{}]", spec(row.param).name,
                         row.param_range.start + (local - row.gbuf_local.start));
    }
    return fmt::format("element {} of the slice, which is padding", local);
  }

  const ParamSpec& spec(int param) const {
    return checkpoint_.layout().specs[static_cast<std::size_t>(param)];
  }

  const Checkpoint& checkpoint_;
  VerifyReport& report_;
  std::vector<float> chunk_;
};

}  // namespace

VerifyReport verify(const std::string& folder) {
  VerifyReport report;
  try {
    const Checkpoint checkpoint(folder, {}, &report.faults);
    Verifier(checkpoint, report).run();
  } catch (const Error& error) {
    report.faults.push_back(error.what());
  }
  return report;
}

}  // namespace zero1::ckpt
