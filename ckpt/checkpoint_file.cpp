#include "ckpt/checkpoint_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "ckpt/hdf5.h"
#include "ckpt/rank_file.h"
#include "ckpt/virtual_view.h"
#include "core/base/error.h"
#include "core/data/input_file.h"

namespace zero1::ckpt {
namespace {

std::vector<Column> slice_columns() {
  return {{"rank", offsetof(SliceRecord, rank), H5T_NATIVE_INT32, H5T_STD_I32LE},
          {"buffer", offsetof(SliceRecord, buffer), H5T_NATIVE_INT32, H5T_STD_I32LE},
          {"bucket", offsetof(SliceRecord, bucket), H5T_NATIVE_INT32, H5T_STD_I32LE},
          {"state", offsetof(SliceRecord, state), H5T_NATIVE_INT32, H5T_STD_I32LE},
          {"offset_bytes", offsetof(SliceRecord, offset_bytes), H5T_NATIVE_INT64, H5T_STD_I64LE},
          {"elems", offsetof(SliceRecord, elems), H5T_NATIVE_INT64, H5T_STD_I64LE},
          {"xxh3_64", offsetof(SliceRecord, digest), H5T_NATIVE_UINT64, H5T_STD_U64LE}};
}

std::vector<Column> file_columns() {
  return {{"bytes", offsetof(RankFileRecord, bytes), H5T_NATIVE_INT64, H5T_STD_I64LE},
          {"frame_xxh3_64", offsetof(RankFileRecord, frame_digest), H5T_NATIVE_UINT64, H5T_STD_U64LE}};
}

/// XXH3-128 of everything behind the user block, as 32 hexadecimal digits.
template <class ReadAt>
std::string digest_behind_user_block(std::int64_t file_bytes, ReadAt&& read_at) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                             XXH3_freeState);
  XXH3_128bits_reset(hash.get());
  std::vector<char> chunk;
  constexpr std::int64_t chunk_bytes = 1 << 20;
  for (std::int64_t at = user_block_bytes; at < file_bytes; at += chunk_bytes) {
    chunk.resize(static_cast<std::size_t>(std::min(chunk_bytes, file_bytes - at)));
    read_at(at, chunk.data(), static_cast<std::int64_t>(chunk.size()));
    XXH3_128bits_update(hash.get(), chunk.data(), chunk.size());
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(hash.get());
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

void check_user_block(const std::string& path, std::vector<std::string>* faults) {
  const InputFile file(path);
  const std::string marker = "zero1-lab checkpoint ";
  std::string found(static_cast<std::size_t>(std::min(user_block_bytes, file.size_bytes())), '\0');
  file.read_at(0, found.data(), static_cast<std::int64_t>(found.size()));
  std::string fault;
  if (found.size() < static_cast<std::size_t>(user_block_bytes) || !found.starts_with(marker)) {
    fault = fmt::format("{}: does not begin as a checkpoint.h5 of this project does", path);
  } else {
    const std::string digest = digest_behind_user_block(
        file.size_bytes(),
        [&](std::int64_t at, void* to, std::int64_t bytes) { file.read_at(at, to, bytes); });
    if (found == user_block(file.size_bytes(), digest)) return;
    fault =
        fmt::format("{}: its bytes do not match the digest in front of them: it was changed or cut", path);
  }
  if (faults == nullptr) throw InputError(fault);
  faults->push_back(fault);
}

/// What the table says of one slice must be what the layout says, inside its file.
void check_slice(const SliceRecord& found, const SliceRecord& expected, const RankFileRecord& file,
                 const std::string& path, std::size_t row) {
  const bool same_place = found.rank == expected.rank && found.buffer == expected.buffer &&
                          found.bucket == expected.bucket && found.state == expected.state &&
                          found.elems == expected.elems;
  if (!same_place) {
    throw InputError(fmt::format(
        "{}: /slices[{}] is rank {} buffer {} bucket {} state {} with {} elements; the layout has rank {} "
        "buffer {} bucket {} state {} with {} elements there",
        path, row, found.rank, found.buffer, found.bucket, found.state, found.elems, expected.rank,
        expected.buffer, expected.bucket, expected.state, expected.elems));
  }
  const std::int64_t bytes = found.elems * static_cast<std::int64_t>(sizeof(float));
  if (found.offset_bytes < 0 || found.offset_bytes > file.bytes - bytes) {
    throw InputError(
        fmt::format("{}: /slices[{}] lies outside of {}", path, row, rank_file_name(found.rank)));
  }
}

void check_slices(const CheckpointContents& contents, const std::string& path) {
  std::size_t row = 0;
  for (int rank = 0; rank < rank_count(contents.layout); ++rank) {
    const RankFileRecord& file = contents.files[static_cast<std::size_t>(rank)];
    std::vector<Range> places;
    for (const SliceRecord& expected : slices_of_rank(contents.layout, rank)) {
      const SliceRecord& found = contents.slices[row];
      check_slice(found, expected, file, path, row++);
      if (found.elems > 0) {
        places.push_back({found.offset_bytes,
                          found.offset_bytes + found.elems * static_cast<std::int64_t>(sizeof(float))});
      }
    }
    std::sort(places.begin(), places.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (places[i].start >= places[i - 1].end) continue;
      throw InputError(fmt::format("{}: two slices overlap in {}", path, rank_file_name(rank)));
    }
  }
}

LayoutCase parse_layout(const std::string& text, const std::string& path) {
  try {
    return parse_layout_file(text, path + ": /layout").entries.at(0).layout_case;
  } catch (const std::out_of_range&) {
    throw InputError(fmt::format("{}: /layout is an empty list", path));
  }
}

}  // namespace

std::string user_block(std::int64_t file_bytes, const std::string& digest_hex) {
  std::string block = fmt::format("zero1-lab checkpoint {}\nbytes {}\nxxh3_128 of bytes {} on {}\n",
                                  format_version, file_bytes, user_block_bytes, digest_hex);
  block.resize(static_cast<std::size_t>(user_block_bytes), '\0');
  return block;
}

void check_names(const std::vector<ParamSpec>& specs) {
  for (const ParamSpec& spec : specs) {
    if (!spec.name.empty() && spec.name != "." &&
        spec.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos)
      continue;
    throw InputError(fmt::format(
        "parameter '{}' cannot be saved: its name becomes a group of /model in HDF5, where '/' separates "
        "groups and '.' is the group itself; rename it",
        spec.name));
  }
}

void write_checkpoint_file(const std::string& folder, const CheckpointContents& contents) {
  const std::string path = folder + "/" + std::string(checkpoint_file_name);
  check_names(contents.layout.specs);
  {
    const Hdf5Lock lock;
    Handle file = create_file(path, user_block_bytes);
    write_attribute(file.get(), "format", "zero1-lab checkpoint", path);
    write_attribute(file.get(), "version", format_version, path);
    write_attribute(file.get(), "step", contents.state.step, path);
    write_string(file.get(), "layout", layout_case_json(contents.layout_case).dump(1), path);
    write_string(file.get(), "state", to_json(contents.state), path);
    write_table(file.get(), "files", file_columns(), sizeof(RankFileRecord), contents.files.data(),
                contents.files.size(), path);
    write_table(file.get(), "slices", slice_columns(), sizeof(SliceRecord), contents.slices.data(),
                contents.slices.size(), path);
    write_virtual_view(file.get(), contents.layout, path);
    file.close(path);
  }
  RawFile raw(path);
  const std::int64_t bytes = raw.size_bytes();
  const std::string digest = digest_behind_user_block(
      bytes, [&](std::int64_t at, void* to, std::int64_t count) { raw.read_at(at, to, count); });
  raw.write_at(0, user_block(bytes, digest).data(), user_block_bytes);
  raw.flush_to_disk();
}

CheckpointContents read_checkpoint_file(const std::string& folder, std::vector<std::string>* faults) {
  const std::string path = folder + "/" + std::string(checkpoint_file_name);
  check_user_block(path, faults);
  const std::int64_t file_bytes = InputFile(path).size_bytes();
  const Hdf5Lock lock;
  const Handle file = open_file(path);
  CheckpointContents contents;
  contents.state = parse_run_state(read_string(file.get(), "state", path), path);
  contents.layout_case = parse_layout(read_string(file.get(), "layout", path), path);
  try {
    contents.layout = compute_layout(contents.layout_case.params, contents.layout_case.options);
    check_names(contents.layout.specs);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: /layout: {}", path, error.what()));
  }
  const std::int64_t slices = slice_count(contents.layout);
  // A table has at least sixteen bytes a row in the file: this bounds what is allocated below.
  if (std::max<std::int64_t>(slices, rank_count(contents.layout)) > file_bytes / 16) {
    throw InputError(fmt::format("{}: /layout has more slices than the file has room for", path));
  }
  contents.files.resize(static_cast<std::size_t>(rank_count(contents.layout)));
  read_table(file.get(), "files", file_columns(), sizeof(RankFileRecord), contents.files.data(),
             contents.files.size(), path);
  contents.slices.resize(static_cast<std::size_t>(slices));
  read_table(file.get(), "slices", slice_columns(), sizeof(SliceRecord), contents.slices.data(),
             contents.slices.size(), path);
  check_slices(contents, path);
  return contents;
}

}  // namespace zero1::ckpt
