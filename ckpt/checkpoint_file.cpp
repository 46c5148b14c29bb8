#include "ckpt/checkpoint_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "ckpt/hdf5.h"
#include "ckpt/hdf5_links.h"
#include "ckpt/rank_file.h"
#include "ckpt/virtual_view.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/input_file.h"

namespace zero1::ckpt {
namespace {

// Rows are stored as these structs lie in memory.
static_assert(sizeof(SliceRecord) == 40 && offsetof(SliceRecord, offset_bytes) == 16 &&
              offsetof(SliceRecord, digest) == 32);
static_assert(sizeof(RankFileRecord) == 16 && offsetof(RankFileRecord, frame_digest) == 8);

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

/// The lines in front of the digest's.
std::string lines_before_digest(const UserBlock& block) {
  std::string lines = fmt::format("zero1-lab checkpoint {}\nbytes {}\n", format_version, block.file_bytes);
  const auto add = [&](const char* name, const Section& section) {
    lines += fmt::format("{} {} {}\n", name, section.offset, section.bytes);
  };
  add("layout", block.layout);
  add("state", block.state);
  add("files", block.files);
  add("slices", block.slices);
  return lines;
}

/// XXH3-128 of what is fed to it.
class Digest {
 public:
  Digest() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(std::string_view bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }
  std::string hex() const {
    const XXH128_hash_t digest = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

template <class ReadAt>
std::string digest_of_file(const UserBlock& block, std::int64_t file_bytes, ReadAt&& read_at) {
  Digest digest;
  digest.add(lines_before_digest(block));
  std::string chunk;
  constexpr std::int64_t chunk_bytes = 1 << 20;
  for (std::int64_t at = user_block_bytes; at < file_bytes; at += chunk_bytes) {
    chunk.resize(static_cast<std::size_t>(std::min(chunk_bytes, file_bytes - at)));
    read_at(at, chunk.data(), static_cast<std::int64_t>(chunk.size()));
    digest.add(chunk);
  }
  return digest.hex();
}

/// Takes the lines of a user block apart, one after another.
class LineParser {
 public:
  explicit LineParser(std::string_view text) : rest_(text) {}

  /// The next line begins with `key` and a space, which are taken off.
  bool key(std::string_view key) {
    if (!rest_.starts_with(key) || rest_.size() == key.size() || rest_[key.size()] != ' ') return false;
    rest_.remove_prefix(key.size() + 1);
    return true;
  }
  bool number(std::int64_t& value, char end) {
    const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (result.ec != std::errc() || value < 0) return false;
    rest_.remove_prefix(static_cast<std::size_t>(result.ptr - rest_.data()));
    if (rest_.empty() || rest_.front() != end) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool section(std::string_view name, Section& section) {
    return key(name) && number(section.offset, ' ') && number(section.bytes, '\n');
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Reads the parts of one checkpoint.h5. What is wrong goes to `on_fault`, which throws or takes a note.
template <class OnFault>
class PartsReader {
 public:
  PartsReader(const FolderInUse& folder, OnFault& on_fault)
      : on_fault_(on_fault),
        file_(folder.open(std::string(checkpoint_file_name))),
        path_(file_.path()),
        block_(read_user_block()) {}

  SalvagedContents read() {
    SalvagedContents result;
    CheckpointContents& contents = result.contents;
    const std::string digest =
        digest_of_file(block_, file_.size_bytes(),
                       [&](std::int64_t at, void* to, std::int64_t bytes) { file_.read_at(at, to, bytes); });
    // Before the digest: whoever has put a link there wants to hear of the link.
    const ForeignLinks links = find_foreign_links(file_, user_block_bytes);
    for (const std::string& link : links.found)
      fault(link + "; a checkpoint holds none, and this one is refused");
    if (block_.file_bytes != file_.size_bytes()) {
      fault(fmt::format("{}, where {} were recorded: it was cut or added to",
                        counted(file_.size_bytes(), "byte"), format_count(block_.file_bytes)));
    } else if (block_.digest != digest) {
      fault("its bytes do not match the digest in front of them: it was changed");
    } else if (!links.unseen.empty()) {
      fault(
          fmt::format("cannot be searched for links that lead elsewhere, and is refused: {}", links.unseen));
    }
    attempt([&] {
      contents.state = parse_run_state(read_text(block_.state, "state"), path_);
      result.has_state = true;
    });
    attempt([&] {
      read_layout(contents);
      result.has_layout = true;
    });
    if (!result.has_layout) return result;
    attempt([&] {
      contents.files = read_rows<RankFileRecord>(block_.files, "files", rank_count(contents.layout));
      check_files(contents);
      result.has_files = true;
    });
    if (!result.has_files) return result;
    attempt([&] {
      contents.slices = read_rows<SliceRecord>(block_.slices, "slices", slice_count(contents.layout));
      result.slice_is_consistent = check_slices(contents);
    });
    return result;
  }

 private:
  void fault(const std::string& what) { on_fault_(fmt::format("{}: {}", path_, what)); }

  template <class Action>
  void attempt(Action&& action) {
    try {
      action();
    } catch (const InputError& error) {
      on_fault_(error.what());
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", path_, what));
  }

  UserBlock read_user_block() const {
    std::string found(static_cast<std::size_t>(std::min(user_block_bytes, file_.size_bytes())), '\0');
    file_.read_at(0, found.data(), static_cast<std::int64_t>(found.size()));
    if (file_.size_bytes() < user_block_bytes) {
      fail(fmt::format("{}, where at least {} were expected: it was cut", counted(file_.size_bytes(), "byte"),
                       user_block_bytes));
    }
    if (!found.starts_with("zero1-lab checkpoint ")) {
      fail("does not begin as a checkpoint.h5 of this project does");
    }
    const std::optional<UserBlock> block = parse_user_block(found);
    if (!block)
      fail(fmt::format("its first {} bytes are not those of version {}", user_block_bytes, format_version));
    return *block;
  }

  void check_section(const Section& section, const char* name) const {
    const bool empty = section.bytes == 0 && section.offset == 0;
    if (empty || (section.offset >= user_block_bytes && section.offset <= file_.size_bytes() &&
                  section.bytes <= file_.size_bytes() - section.offset))
      return;
    fail(fmt::format("/{} would lie at bytes [{}, {} + {}), outside of the file's {}", name, section.offset,
                     section.offset, section.bytes, file_.size_bytes()));
  }

  std::string read_text(const Section& section, const char* name) const {
    check_section(section, name);
    std::string text(static_cast<std::size_t>(section.bytes), '\0');
    file_.read_at(section.offset, text.data(), section.bytes);
    return text;
  }

  template <class Row>
  std::vector<Row> read_rows(const Section& section, const char* name, std::int64_t count) const {
    check_section(section, name);
    constexpr auto row_bytes = static_cast<std::int64_t>(sizeof(Row));
    if (section.bytes % row_bytes != 0 || section.bytes / row_bytes != count) {
      fail(fmt::format("/{} has {} bytes; the layout needs {} rows of {}", name, section.bytes, count,
                       row_bytes));
    }
    std::vector<Row> rows(static_cast<std::size_t>(count));
    file_.read_at(section.offset, rows.data(), section.bytes);
    return rows;
  }

  void read_layout(CheckpointContents& contents) const {
    const LayoutFile file = parse_layout_file(read_text(block_.layout, "layout"), path_ + ": /layout");
    if (file.entries.size() != 1) fail("/layout does not hold one layout");
    contents.layout_case = file.entries.front().layout_case;
    try {
      contents.layout = compute_layout(contents.layout_case.params, contents.layout_case.options);
      check_names(contents.layout.specs);
    } catch (const InputError& error) {
      fail(fmt::format("/layout: {}", error.what()));
    }
    std::int64_t elems = 0;
    std::int64_t bytes = 0;
    bool fits = true;
    for (const BufferLayout& buffer : contents.layout.buffers) {
      fits = fits && !__builtin_add_overflow(elems, buffer.numel, &elems);
    }
    if (!fits || __builtin_mul_overflow(elems, state_count * elem_bytes, &bytes)) {
      fail("/layout: the bytes of all slices exceed 2^63");
    }
  }

  void check_files(const CheckpointContents& contents) {
    std::int64_t total = 0;
    for (std::size_t rank = 0; rank < contents.files.size(); ++rank) {
      const std::int64_t bytes = contents.files[rank].bytes;
      if (bytes < 0 || __builtin_add_overflow(total, bytes, &total)) {
        fault(fmt::format("/files[{}]: {} bytes cannot be", rank, bytes));
        total = 0;
      }
    }
  }

  /// What the table says of the slices must be what the layout says, inside their files and side by side.
  std::vector<bool> check_slices(const CheckpointContents& contents) {
    std::vector<bool> consistent;
    for (int rank = 0; rank < rank_count(contents.layout); ++rank) {
      const RankFileRecord& file = contents.files[static_cast<std::size_t>(rank)];
      std::vector<Range> places;
      for (const SliceRecord& expected : slices_of_rank(contents.layout, rank)) {
        const SliceRecord& found = contents.slices[consistent.size()];
        const std::string what = slice_fault(found, expected, file);
        if (!what.empty()) fault(fmt::format("/slices[{}] {}", consistent.size(), what));
        consistent.push_back(what.empty());
        if (what.empty() && found.elems > 0) {
          places.push_back({found.offset_bytes, found.offset_bytes + found.elems * elem_bytes});
        }
      }
      std::sort(places.begin(), places.end(),
                [](const Range& a, const Range& b) { return a.start < b.start; });
      for (std::size_t i = 1; i < places.size(); ++i) {
        if (places[i].start < places[i - 1].end)
          fault(fmt::format("two slices overlap in {}", rank_file_name(rank)));
      }
    }
    return consistent;
  }

  static std::string slice_fault(const SliceRecord& found, const SliceRecord& expected,
                                 const RankFileRecord& file) {
    const auto place = [](const SliceRecord& slice) {
      return fmt::format("rank {} buffer {} bucket {} state {} with {} elements", slice.rank, slice.buffer,
                         slice.bucket, slice.state, slice.elems);
    };
    const bool same_place = found.rank == expected.rank && found.buffer == expected.buffer &&
                            found.bucket == expected.bucket && found.state == expected.state &&
                            found.elems == expected.elems;
    if (!same_place) return fmt::format("is {}; the layout has {} there", place(found), place(expected));
    const bool inside = found.offset_bytes >= 0 && found.elems <= file.bytes / elem_bytes &&
                        found.offset_bytes <= file.bytes - found.elems * elem_bytes;
    return inside ? "" : fmt::format("lies outside of {}", rank_file_name(found.rank));
  }

  OnFault& on_fault_;
  InputFile file_;
  const std::string& path_;
  UserBlock block_;
};

}  // namespace

std::string encode_user_block(const UserBlock& block) {
  std::string bytes = lines_before_digest(block) + fmt::format("xxh3_128 {}\n", block.digest);
  bytes.resize(static_cast<std::size_t>(user_block_bytes), '\0');
  return bytes;
}

std::optional<UserBlock> parse_user_block(std::string_view bytes) {
  LineParser line(bytes);
  UserBlock block;
  std::int64_t version = 0;
  const bool complete = line.key("zero1-lab checkpoint") && line.number(version, '\n') && line.key("bytes") &&
                        line.number(block.file_bytes, '\n') && line.section("layout", block.layout) &&
                        line.section("state", block.state) && line.section("files", block.files) &&
                        line.section("slices", block.slices) && line.key("xxh3_128");
  if (!complete) return std::nullopt;
  block.digest = line.rest().substr(0, 32);
  if (encode_user_block(block) != bytes) return std::nullopt;  // the version, the filling, any odd spelling
  return block;
}

std::string user_block_digest(const UserBlock& block, std::string_view rest) {
  Digest digest;
  digest.add(lines_before_digest(block));
  digest.add(rest);
  return digest.hex();
}

void check_names(const std::vector<ParamSpec>& specs) {
  for (const ParamSpec& spec : specs) {
    if (!is_utf8(spec.name)) {
      throw InputError(fmt::format("parameter '{}' cannot be saved: its name is not UTF-8; rename it",
                                   printable(spec.name)));
    }
    const std::size_t nul = spec.name.find('\0');
    if (nul == std::string::npos) continue;
    throw InputError(
        fmt::format("parameter '{}\\0…' cannot be saved: its name has a NUL, where names end in HDF5; "
                    "rename it",
                    spec.name.substr(0, nul)));
  }
}

namespace {

/// HDF5 has stored what it was given: the digest that follows would make any other bytes valid.
void check_stored(const RawFile& file, const std::string& path, const Section& section, const void* given,
                  std::size_t bytes) {
  std::string stored(static_cast<std::size_t>(section.bytes), '\0');
  file.read_at(section.offset, stored.data(), section.bytes);
  if (stored == std::string_view(static_cast<const char*>(given), bytes)) return;
  throw Error(fmt::format("{}: HDF5 has not stored what it was given", path));
}

}  // namespace

void write_checkpoint_file(const std::string& folder, const CheckpointContents& contents) {
  const std::string path = folder + "/" + std::string(checkpoint_file_name);
  check_names(contents.layout.specs);
  const std::string layout = layout_case_json(contents.layout_case).dump(1);
  const std::string state = to_json(contents.state);
  UserBlock block;
  {
    const Hdf5Lock lock;
    Handle file = create_file(path, user_block_bytes);
    write_attribute(file.get(), "format", "zero1-lab checkpoint", path);
    write_attribute(file.get(), "version", format_version, path);
    write_attribute(file.get(), "step", contents.state.step, path);
    block.layout = write_string(file.get(), "layout", layout, path);
    block.state = write_string(file.get(), "state", state, path);
    block.files = write_table(file.get(), "files", file_columns(), sizeof(RankFileRecord),
                              contents.files.data(), contents.files.size(), path);
    block.slices = write_table(file.get(), "slices", slice_columns(), sizeof(SliceRecord),
                               contents.slices.data(), contents.slices.size(), path);
    write_virtual_view(file.get(), contents, folder);
    file.close(path, "H5Fclose");
  }
  RawFile raw(path);
  check_stored(raw, path, block.layout, layout.data(), layout.size());
  check_stored(raw, path, block.state, state.data(), state.size());
  check_stored(raw, path, block.files, contents.files.data(), contents.files.size() * sizeof(RankFileRecord));
  check_stored(raw, path, block.slices, contents.slices.data(), contents.slices.size() * sizeof(SliceRecord));
  block.file_bytes = raw.size_bytes();
  block.digest = digest_of_file(block, block.file_bytes, [&](std::int64_t at, void* to, std::int64_t count) {
    raw.read_at(at, to, count);
  });
  raw.write_at(0, encode_user_block(block).data(), user_block_bytes);
  raw.flush_to_disk();
}

CheckpointContents read_checkpoint_file(const FolderInUse& folder) {
  const auto refuse = [](const std::string& fault) { throw InputError(fault); };
  return PartsReader(folder, refuse).read().contents;
}

SalvagedContents salvage_checkpoint_file(const FolderInUse& folder, std::vector<std::string>& faults) {
  const auto note = [&](const std::string& fault) { faults.push_back(fault); };
  return PartsReader(folder, note).read();
}

}  // namespace zero1::ckpt
