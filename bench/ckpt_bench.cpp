// Checkpoints: what saving, loading, resharding and gathering cost beyond moving the same bytes plainly, and
// how much memory they take.
//
// bound of saving      = writing the same bytes into as many files with pwrite and flushing them (fsync)
// bound of loading     = reading the same bytes with pread; `unchecked`: the same without comparing digests
// bound of resharding
//     and gathering    = reading the same bytes with pread and writing and flushing them, as `cp` does
// ratio                = bound's time / our time; 1 means nothing is lost. Ours and the bound alternate; the
//                        best of each counts, and the median of the rounds' ratios stands beside it
// memory               = the largest resident set of a process that does only this, with --mem-limit
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "bench/flags.h"
#include "ckpt/gather.h"
#include "ckpt/verify.h"
#include "ckpt/write.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/file_io.h"
#include "core/base/units.h"

using namespace zero1;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t chunk_bytes = 8 << 20;

/// Numbers that are there already: filling them in costs no more than a copy.
class Table : public ckpt::ElementSource {
 public:
  Table() : values_(static_cast<std::size_t>(chunk_bytes) / sizeof(float)) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 8191) * 1e-4F;
  }
  void read(int, ckpt::State, Range range, float* out) const override {
    for (std::int64_t done = 0; done < range.size();) {
      const std::int64_t count = std::min(range.size() - done, static_cast<std::int64_t>(values_.size()));
      std::copy_n(values_.data(), count, out + done);
      done += count;
    }
  }

 private:
  std::vector<float> values_;
};

LayoutCase layout_of(std::int64_t bytes, int dp) {
  constexpr std::int64_t tensors = 24;
  const std::int64_t rows =
      std::max<std::int64_t>(1, bytes / (ckpt::state_count * std::int64_t{sizeof(float)}) / tensors / 1024);
  LayoutCase result;
  for (std::int64_t t = 0; t < tensors; ++t) {
    result.params.push_back({fmt::format("layer.{}.weight", t), {rows, 1024}, DType::bf16, false, false});
  }
  result.options.dp_size = result.options.expert_dp_size = dp;
  result.options.bucket_size_elems = 40'000'000;
  return result;
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(what);
}

enum class Move { read, write, copy };

/// The bytes of a checkpoint's files, moved without looking at them.
void move_plainly(Move move, const std::string& to, const ckpt::Checkpoint& like) {
  std::vector<char> chunk(static_cast<std::size_t>(chunk_bytes), 'x');
  for (std::size_t rank = 0; rank < like.files().size(); ++rank) {
    const std::string name = ckpt::rank_file_name(static_cast<int>(rank));
    const InputFile source(like.folder() + "/" + name);
    const std::string path = to + "/" + name;
    const int fd = move == Move::read ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    require(move == Move::read || fd >= 0, "the plain file cannot be created");
    for (std::int64_t at = 0; at < source.size_bytes(); at += chunk_bytes) {
      const std::int64_t count = std::min(chunk_bytes, source.size_bytes() - at);
      if (move != Move::write) source.read_at(at, chunk.data(), count);
      require(move == Move::read || write_whole(fd, chunk.data(), count, at), "pwrite failed");
    }
    if (move == Move::read) continue;
    require(::fsync(fd) == 0, "fsync failed");
    ::close(fd);
  }
}

void read_everything(const ckpt::Checkpoint& checkpoint) {
  std::vector<float> values(static_cast<std::size_t>(chunk_bytes) / sizeof(float));
  const auto chunk_elems = static_cast<std::int64_t>(values.size());
  for (std::size_t p = 0; p < checkpoint.layout().specs.size(); ++p) {
    const std::int64_t elems = checkpoint.layout().specs[p].numel();
    for (const ckpt::State state : ckpt::all_states) {
      for (std::int64_t at = 0; at < elems; at += chunk_elems) {
        checkpoint.read(static_cast<int>(p), state, {at, std::min(elems, at + chunk_elems)}, values.data());
      }
    }
  }
}

double seconds_of(const std::function<void()>& action) {
  const std::int64_t begin = now_ns();
  action();
  return static_cast<double>(now_ns() - begin) * 1e-9;
}

/// Both actions write, if anything, into the folder `scratch`, which is empty at their beginning.
class Comparison {
 public:
  Comparison(std::string scratch, std::int64_t bytes, int rounds)
      : scratch_(std::move(scratch)), bytes_(bytes), rounds_(rounds) {}

  void row(const char* what, double goal, const std::function<void()>& ours,
           const std::function<void()>& bound) {
    double best_ours = std::numeric_limits<double>::infinity();
    double best_bound = best_ours;
    std::vector<double> ratios;
    for (int i = 0; i < rounds_; ++i) {
      const double ours_s = timed(ours);
      const double bound_s = timed(bound);
      best_ours = std::min(best_ours, ours_s);
      best_bound = std::min(best_bound, bound_s);
      ratios.push_back(bound_s / ours_s);
    }
    std::sort(ratios.begin(), ratios.end());
    const double ratio = best_bound / best_ours;
    fmt::print("{:<22}{:>8.3f} s {:>12}/s   bound {:>8.3f} s {:>12}/s   ratio {:.2f}  median {:.2f}", what,
               best_ours, rate(best_ours), best_bound, rate(best_bound), ratio, ratios[ratios.size() / 2]);
    if (goal > 0) fmt::print("  goal {:.1f}{}", goal, ratio >= goal ? "" : " MISSED");
    fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  double timed(const std::function<void()>& action) const {
    fs::remove_all(scratch_);
    fs::create_directories(scratch_);
    ::sync();  // what came before is not this one's to flush
    return seconds_of(action);
  }
  std::string rate(double seconds) const {
    return format_bytes(static_cast<std::int64_t>(static_cast<double>(bytes_) / seconds));
  }

  std::string scratch_;
  std::int64_t bytes_;
  int rounds_;
};

/// The largest resident set of a process that does only `action`.
void memory_row(const char* what, std::int64_t limit, const std::function<void()>& action) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  require(child >= 0, "fork failed");
  if (child == 0) {
    action();
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  require(::wait4(child, &status, 0, &usage) == child && status == 0, "the child failed");
  const std::int64_t peak = std::int64_t{usage.ru_maxrss} << 10;
  fmt::print(
      "{:<22}{:>12} at most{}\n", what, format_bytes(peak),
      limit > 0 ? fmt::format("   bound {}{}", format_bytes(limit), peak <= limit ? "" : " MISSED") : "");
}

}  // namespace

int main(int argc, char** argv) {
  zero1::bench::Flags flags(
      "Saving, loading, resharding and gathering against moving the same bytes plainly");
  std::string size = "512MiB";
  std::string folder = fs::temp_directory_path() / fmt::format("zero1-ckpt-bench-{}", ::getpid());
  std::string generate;
  std::string mem_limit = "128MiB";
  int dp = 8;
  int to = 12;
  int workers = 1;
  int rounds = 3;
  flags.add("--size", size, "Of the checkpoint");
  flags.add("--dp", dp, "Ranks");
  flags.add("--to", to, "Ranks to reshard to");
  flags.add("--workers", workers, "Files written side by side");
  flags.add("--rounds", rounds, "Of ours and the bound in turn");
  flags.add("--mem-limit", mem_limit, "For the element buffers");
  flags.add("--folder", folder, "Where to work: the disk that is measured");
  flags.add("--generate", generate, "Only write a checkpoint of this size into this folder");
  flags.parse(argc, argv);
  const Table table;
  ckpt::RunState state;
  state.step = state.optimizer_steps = 1;
  const LayoutCase from = layout_of(parse_bytes(size), dp);
  ckpt::WriteOptions options;
  options.workers = workers;
  options.mem_limit_bytes = parse_bytes(mem_limit);
  if (!generate.empty()) {
    ckpt::write_checkpoint(generate, state, from, table, options);
    return 0;
  }
  const std::string saved = folder + "/saved";
  const std::string scratch = folder + "/scratch";
  LayoutCase target = from;
  target.options.dp_size = target.options.expert_dp_size = to;
  ckpt::GatherOptions gather;
  gather.mem_limit_bytes = options.mem_limit_bytes;
  const auto reshard = [&] {
    ckpt::write_checkpoint(scratch + "/resharded", state, target, ckpt::Checkpoint(saved), options);
  };

  // Before anything else, so that the children inherit as little as can be.
  fs::create_directories(scratch);
  memory_row("save, memory", 0, [&] { ckpt::write_checkpoint(saved, state, from, table, options); });
  constexpr std::int64_t over_limit = 64 << 20;  // of everything but the element buffers
  const std::int64_t most = options.mem_limit_bytes + over_limit;
  memory_row("reshard, memory", most, reshard);
  memory_row("gather, memory", most,
             [&] { ckpt::gather_hdf5(ckpt::Checkpoint(saved), scratch + "/gathered.h5", gather); });

  const ckpt::Checkpoint source(saved, {}, ckpt::Digests::trust);
  const std::int64_t bytes = ckpt::slice_bytes(source.layout());
  const auto plain = [&](Move move) { return [&, move] { move_plainly(move, scratch, source); }; };
  fmt::print("{} at dp {}, {} worker{}, in {}\n", format_bytes(bytes), dp, workers, workers == 1 ? "" : "s",
             folder);
  Comparison compare(scratch, bytes, rounds);
  constexpr double goal = 0.8;
  compare.row(
      "save", goal, [&] { ckpt::write_checkpoint(scratch + "/saved", state, from, table, options); },
      plain(Move::write));
  compare.row(
      "load", 0, [&] { read_everything(ckpt::Checkpoint(saved)); }, plain(Move::read));
  compare.row(
      "load, unchecked", 0, [&] { read_everything(source); }, plain(Move::read));
  compare.row(
      "verify", 0, [&] { require(ckpt::verify(saved).faults.empty(), "verify found faults"); },
      plain(Move::read));
  compare.row("reshard", goal, reshard, plain(Move::copy));
  compare.row(
      "gather, HDF5", goal, [&] { ckpt::gather_hdf5(ckpt::Checkpoint(saved), scratch + "/all.h5", gather); },
      plain(Move::copy));
  fs::remove_all(folder);
  return 0;
}
