#include "ckpt/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>

#include "ckpt/pieces.h"
#include "core/base/error.h"

namespace zero1::ckpt {

Checkpoint::Checkpoint(const std::string& source, std::optional<std::int64_t> step,
                       std::vector<std::string>* faults) {
  // Between finding a folder and locking it a run may have pruned it; then `latest` has moved on.
  constexpr int attempts = 5;
  for (int attempt = 1;; ++attempt) {
    folder_.clear();
    try {
      folder_ = resolve_source(source, step);
      in_use_.emplace(folder_);
      contents_ = read_checkpoint_file(folder_, faults);
      return;
    } catch (const InputError&) {
      if (attempt == attempts || std::filesystem::exists(folder_)) throw;
      in_use_.reset();
    }
  }
}

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

std::string Checkpoint::rank_path(int rank) const {
  return folder_ + "/" + rank_file_name(rank);
}

void check_rank_file(const InputFile& file, const RankFileRecord& record) {
  if (file.size_bytes() == record.bytes) return;
  throw InputError(
      fmt::format("{}: {} bytes, but checkpoint.h5 recorded {}: it was cut, or is of another checkpoint; see "
                  "`zero1 ckpt verify`",
                  file.path(), file.size_bytes(), record.bytes));
}

void Checkpoint::read(int param, State state, Range param_range, float* out) const {
  for_each_piece(contents_.layout, param, param_range, [&](const Piece& piece) {
    // Opened anew each time: a run may have more ranks than a process may have files.
    const InputFile file(rank_path(piece.rank));
    check_rank_file(file, contents_.files[static_cast<std::size_t>(piece.rank)]);
    constexpr std::int64_t elem_bytes = sizeof(float);
    const std::int64_t offset = slice(piece.rank, piece.buffer, piece.bucket, state).offset_bytes;
    file.read_at(offset + piece.local.start * elem_bytes, out + (piece.param_range.start - param_range.start),
                 piece.local.size() * elem_bytes);
  });
}

std::string compare_params(const std::vector<ParamSpec>& wanted, const std::vector<ParamSpec>& stored) {
  std::map<std::string_view, const ParamSpec*> by_name;
  for (const ParamSpec& spec : stored) by_name[spec.name] = &spec;
  std::string faults;
  for (const ParamSpec& spec : wanted) {
    const auto found = by_name.find(spec.name);
    if (found == by_name.end()) {
      faults += fmt::format("\n  missing: {} [{}]", spec.name, fmt::join(spec.shape, ", "));
      continue;
    }
    if (found->second->shape != spec.shape) {
      faults += fmt::format("\n  {}: shape [{}], expected [{}]", spec.name,
                            fmt::join(found->second->shape, ", "), fmt::join(spec.shape, ", "));
    }
    by_name.erase(found);
  }
  for (const ParamSpec& spec : stored) {
    if (by_name.count(spec.name) != 0) {
      faults += fmt::format("\n  unexpected: {} [{}]", spec.name, fmt::join(spec.shape, ", "));
    }
  }
  return faults;
}

}  // namespace zero1::ckpt
