#include "ckpt/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "ckpt/rank_file.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/layout/range_map.h"

namespace zero1::ckpt {
namespace {

namespace fs = std::filesystem;

/// One checkpoint being written by several workers.
class Writing {
 public:
  Writing(const std::string& folder, CheckpointContents& contents, const ElementSource& source,
          const WriteOptions& options)
      : folder_(folder),
        contents_(contents),
        source_(source),
        options_(options),
        total_bytes_(slice_bytes(contents.layout)) {
    constexpr std::int64_t smallest = 64 << 10;
    constexpr std::int64_t largest = 1 << 20;  // stays in the cache from filling it to writing it
    chunk_elems_ =
        std::clamp(options.mem_limit_bytes / (std::int64_t{2} * options.workers), smallest, largest) /
        elem_bytes;
  }

  void run() {
    const int workers = std::clamp(options_.workers, 1, static_cast<int>(contents_.files.size()));
    std::vector<std::thread> threads;
    for (int w = 1; w < workers; ++w) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    try {
      std::vector<float> chunk;
      while (!failed_) {
        const int rank = next_rank_++;
        if (rank >= static_cast<int>(contents_.files.size())) return;
        write_rank(rank, chunk);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
  }

  void write_rank(int rank, std::vector<float>& chunk) {
    RankFileWriter writer(folder_, contents_.layout, rank, contents_.state.step);
    for (std::size_t b = 0; b < contents_.layout.buffers.size(); ++b) {
      const BufferLayout& buffer = contents_.layout.buffers[b];
      if (rank >= buffer.dp_size) continue;
      RangeMapWalker walker(contents_.layout, static_cast<int>(b), rank);
      const std::span<const ParamShard> rows = walker.next();
      for (int k = 0; k < static_cast<int>(buffer.buckets.size()); ++k) {
        for (const State state : all_states)
          write_slice(writer, rows, k, buffer.shard_elems(k), state, chunk);
      }
    }
    contents_.files[static_cast<std::size_t>(rank)] = writer.finish();
    const auto first = slice_index(contents_.layout, rank, 0, 0, State::param);
    std::copy(writer.slices().begin(), writer.slices().end(), contents_.slices.begin() + first);
  }

  void write_slice(RankFileWriter& writer, std::span<const ParamShard> rows, int bucket, std::int64_t elems,
                   State state, std::vector<float>& chunk) {
    for (std::int64_t at = 0; at < elems && !failed_; at += chunk_elems_) {
      const Range local{at, std::min(elems, at + chunk_elems_)};
      chunk.resize(static_cast<std::size_t>(local.size()));
      std::int64_t filled = at;
      for (const ParamShard& row : rows) {
        const Range part = intersect(row.gbuf_local, local);
        if (row.bucket != bucket || part.empty()) continue;
        std::fill(chunk.begin() + (filled - at), chunk.begin() + (part.start - at), 0.0F);
        filled = part.end;
        const std::int64_t param_start = row.param_range.start + (part.start - row.gbuf_local.start);
        source_.read(row.param, state, part.normalized(param_start), chunk.data() + (part.start - at));
      }
      std::fill(chunk.begin() + (filled - at), chunk.end(), 0.0F);  // padding is zero
      writer.append(chunk.data(), local.size());
      progress(local.size() * elem_bytes);
    }
  }

  void progress(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_bytes_ += bytes;
    if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
  }

  const std::string& folder_;
  CheckpointContents& contents_;
  const ElementSource& source_;
  const WriteOptions& options_;
  std::int64_t total_bytes_;
  std::int64_t chunk_elems_ = 0;
  std::atomic<int> next_rank_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::int64_t done_bytes_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

std::int64_t slice_bytes(const Layout& layout) {
  std::int64_t elems = 0;
  for (const BufferLayout& buffer : layout.buffers) elems += buffer.numel;
  return elems * state_count * elem_bytes;
}

void refuse_existing(const std::string& path, const char* what) {
  std::error_code ignored;
  std::string bare = path;  // a slash at the end would follow a link
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  if (!fs::exists(fs::symlink_status(bare, ignored))) return;
  throw InputError(fmt::format("{}: is there already; name a new {}", path, what));
}

void check_space(const std::string& folder, std::int64_t needed_bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(fs::path(folder), error);
  if (error || space.available >= static_cast<std::uintmax_t>(needed_bytes)) return;
  throw InputError(fmt::format("{}: {} are needed, but only {} are free there", folder,
                               format_bytes(needed_bytes),
                               format_bytes(static_cast<std::int64_t>(space.available))));
}

void write_checkpoint(const std::string& folder, const RunState& state, const LayoutCase& layout_case,
                      const ElementSource& source, const WriteOptions& options) {
  CheckpointContents contents;
  contents.state = state;
  contents.layout_case = layout_case;
  contents.layout = compute_layout(layout_case.params, layout_case.options);
  check_names(contents.layout.specs);
  contents.files.resize(static_cast<std::size_t>(rank_count(contents.layout)));
  contents.slices.resize(static_cast<std::size_t>(slice_count(contents.layout)));
  refuse_existing(folder, "folder");
  PendingFolder pending(folder);
  if (options.check_space) check_space(pending.path(), slice_bytes(contents.layout));
  Writing(pending.path(), contents, source, options).run();
  if (options.before_publishing) options.before_publishing();
  write_checkpoint_file(pending.path(), contents);
  pending.publish();
}

}  // namespace zero1::ckpt
