// Checkpoints: what saving and resharding cost beyond moving the same bytes plainly.
//
// bound of saving      = writing the same bytes with pwrite and flushing them (fsync)
// bound of resharding  = reading the same bytes with pread and writing them so, as `cp` does
// ratio                = bound's time / our time; 1 means nothing is lost
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

#include "ckpt/write.h"
#include "core/base/clock.h"
#include "core/base/error.h"
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

/// One file per rank, `bytes` in all, written and flushed; read from `from`'s files where it is given.
void move_plainly(const std::string& to, const ckpt::Checkpoint& like, bool read_too) {
  std::vector<char> chunk(static_cast<std::size_t>(chunk_bytes), 'x');
  for (std::size_t rank = 0; rank < like.files().size(); ++rank) {
    const std::int64_t bytes = like.files()[rank].bytes;
    const InputFile source(fmt::format("{}/{}", like.folder(), ckpt::rank_file_name(static_cast<int>(rank))));
    const int fd = ::open(fmt::format("{}.{}", to, rank).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    require(fd >= 0, "the plain file cannot be created");
    for (std::int64_t at = 0; at < bytes; at += chunk_bytes) {
      const std::int64_t count = std::min(chunk_bytes, bytes - at);
      if (read_too) source.read_at(at, chunk.data(), count);
      require(::pwrite(fd, chunk.data(), static_cast<std::size_t>(count), at) == count, "pwrite failed");
    }
    require(::fsync(fd) == 0, "fsync failed");
    ::close(fd);
    fs::remove(fmt::format("{}.{}", to, rank));
  }
}

template <class Action>
double best_s(int repeats, Action&& action) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const std::int64_t begin = now_ns();
    action();
    best = std::min(best, static_cast<double>(now_ns() - begin) * 1e-9);
  }
  return best;
}

void print_row(const char* what, std::int64_t bytes, double ours_s, double bound_s) {
  const auto rate = [&](double s) {
    return format_bytes(static_cast<std::int64_t>(static_cast<double>(bytes) / s));
  };
  fmt::print("{:<10}{:>12}{:>10.3f} s {:>12}/s   bound {:>8.3f} s {:>12}/s   ratio {:.2f}\n", what,
             format_bytes(bytes), ours_s, rate(ours_s), bound_s, rate(bound_s), bound_s / ours_s);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Saving and resharding against moving the same bytes plainly");
  std::string size = "512MiB";
  std::string folder = fs::temp_directory_path() / fmt::format("zero1-ckpt-bench-{}", ::getpid());
  std::string generate;
  int dp = 8;
  int to = 12;
  int workers = 1;
  int repeats = 3;
  app.add_option("--size", size, "Of the checkpoint")->capture_default_str();
  app.add_option("--dp", dp, "Ranks")->capture_default_str();
  app.add_option("--to", to, "Ranks to reshard to")->capture_default_str();
  app.add_option("--workers", workers, "Files written side by side")->capture_default_str();
  app.add_option("--repeats", repeats, "The best of so many")->capture_default_str();
  app.add_option("--generate", generate, "Only write a checkpoint of this size into this folder");
  CLI11_PARSE(app, argc, argv);
  const Table table;
  const LayoutCase from = layout_of(parse_bytes(size), dp);
  ckpt::WriteOptions options;
  options.workers = workers;
  if (!generate.empty()) {
    ckpt::write_checkpoint(generate, {}, from, table, options);
    return 0;
  }
  fs::create_directories(folder);
  const std::string saved = folder + "/saved";
  const std::string resharded = folder + "/resharded";
  const double save_s = best_s(repeats, [&] {
    fs::remove_all(saved);
    ckpt::write_checkpoint(saved, {}, from, table, options);
  });
  const ckpt::Checkpoint source(saved);
  const std::int64_t bytes = ckpt::slice_bytes(source.layout());
  const double write_s = best_s(repeats, [&] { move_plainly(folder + "/plain", source, false); });
  print_row("save", bytes, save_s, write_s);
  LayoutCase target = from;
  target.options.dp_size = target.options.expert_dp_size = to;
  const double reshard_s = best_s(repeats, [&] {
    fs::remove_all(resharded);
    ckpt::write_checkpoint(resharded, {}, target, source, options);
  });
  const double copy_s = best_s(repeats, [&] { move_plainly(folder + "/plain", source, true); });
  print_row("reshard", bytes, reshard_s, copy_s);
  fs::remove_all(folder);
  return 0;
}
