// Any bytes as the files of a checkpoint: what inspect, load, diff and verify do with them ends in an
// InputError, in faults, or well. Digests are set right after most changes, so that what they would catch
// reaches the code behind them.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ckpt/diff.h"
#include "ckpt/pieces.h"
#include "ckpt/verify.h"
#include "core/base/error.h"
#include "tests/ckpt/ckpt_support.h"
#include "tests/fuzz/fuzz_support.h"

using namespace zero1;

namespace {

/// checkpoint.h5, then the ranks' files.
using Files = std::vector<std::string>;
constexpr std::size_t file_count = 3;

const fuzz::Scratch& scratch() {
  static const fuzz::Scratch folder;
  return folder;
}

std::string file_name(std::size_t file) {
  return file == 0 ? std::string(ckpt::checkpoint_file_name)
                   : ckpt::rank_file_name(static_cast<int>(file) - 1);
}

/// An input is the lengths of all files but the last, 32 bits each, then the files.
std::string join(const Files& files) {
  std::string input;
  for (std::size_t f = 0; f + 1 < file_count; ++f) {
    const auto length = static_cast<std::uint32_t>(files[f].size());
    input.append(reinterpret_cast<const char*>(&length), sizeof length);
  }
  for (const std::string& file : files) input += file;
  return input;
}

Files split(std::string_view input) {
  Files files(file_count);
  constexpr std::size_t head = sizeof(std::uint32_t) * (file_count - 1);
  if (input.size() < head) return files;
  std::string_view rest = input.substr(head);
  for (std::size_t f = 0; f < file_count; ++f) {
    std::uint32_t length = 0;
    if (f + 1 < file_count) std::memcpy(&length, input.data() + f * sizeof length, sizeof length);
    const std::size_t taken = f + 1 < file_count ? std::min<std::size_t>(length, rest.size()) : rest.size();
    files[f] = rest.substr(0, taken);
    rest.remove_prefix(taken);
  }
  return files;
}

/// checkpoint.h5 taken apart: HDF5's own bytes are of no interest to the reader.
struct Parts {
  std::string layout, state, files, slices;
};

std::string part_of(const std::string& file, const ckpt::Section& section) {
  if (section.offset < 0 || section.bytes < 0 || section.offset > static_cast<std::int64_t>(file.size()))
    return {};
  return file.substr(static_cast<std::size_t>(section.offset), static_cast<std::size_t>(section.bytes));
}

std::optional<Parts> take_apart(const std::string& file) {
  const auto block = ckpt::parse_user_block(
      std::string_view(file).substr(0, static_cast<std::size_t>(ckpt::user_block_bytes)));
  if (!block) return std::nullopt;
  return Parts{part_of(file, block->layout), part_of(file, block->state), part_of(file, block->files),
               part_of(file, block->slices)};
}

/// The user block that fits `parts`, and what follows it.
std::pair<ckpt::UserBlock, std::string> put_together(const Parts& parts) {
  ckpt::UserBlock block;
  std::string rest;
  const auto add = [&](const std::string& part, ckpt::Section& section) {
    if (part.empty()) return;
    section = {ckpt::user_block_bytes + static_cast<std::int64_t>(rest.size()),
               static_cast<std::int64_t>(part.size())};
    rest += part;
  };
  add(parts.layout, block.layout);
  add(parts.state, block.state);
  add(parts.files, block.files);
  add(parts.slices, block.slices);
  block.file_bytes = ckpt::user_block_bytes + static_cast<std::int64_t>(rest.size());
  return {block, rest};
}

std::string stamped(ckpt::UserBlock block, const std::string& rest) {
  block.digest = ckpt::user_block_digest(block, rest);
  return ckpt::encode_user_block(block) + rest;
}

/// One number of a table becomes another.
void change_number(std::string& table, RandomStream& random) {
  if (table.size() < 8) return;
  const std::size_t bytes = random.below(2) == 0 ? 4 : 8;
  const std::size_t at =
      static_cast<std::size_t>(random.below(static_cast<std::int64_t>(table.size() / bytes))) * bytes;
  std::uint64_t value = 0;
  std::memcpy(&value, table.data() + at, bytes);
  value = fuzz::odd_number(random, value);
  std::memcpy(table.data() + at, &value, bytes);
}

void change_section(ckpt::UserBlock& block, RandomStream& random) {
  ckpt::Section* sections[] = {&block.layout, &block.state, &block.files, &block.slices};
  ckpt::Section& section = *sections[random.below(4)];
  std::int64_t& number = random.below(2) == 0 ? section.offset : section.bytes;
  // The block has no negative numbers.
  number = static_cast<std::int64_t>(fuzz::odd_number(random, static_cast<std::uint64_t>(number)) >> 1);
}

std::string changed_checkpoint_file(const std::string& file, RandomStream& random) {
  std::optional<Parts> parts = take_apart(file);
  constexpr std::size_t growth = 64;
  if (!parts || random.below(16) == 0) return fuzz::mutated(file, file.size() + growth);
  const auto mutate = [&](std::string& part) { part = fuzz::mutated(part, part.size() + growth); };
  bool move_section = false;
  switch (random.below(8)) {
    case 0:
    case 1: mutate(parts->layout); break;
    case 2: mutate(parts->state); break;
    case 3: mutate(parts->files); break;
    case 4: mutate(parts->slices); break;
    case 5: change_number(parts->files, random); break;
    case 6: change_number(parts->slices, random); break;
    default: move_section = true;
  }
  auto [block, rest] = put_together(*parts);
  if (move_section) change_section(block, random);
  return stamped(block, rest);
}

Files files_of(const LayoutCase& layout_case) {
  const std::string folder = scratch().path("seed");
  std::filesystem::remove_all(folder);
  ckpt::RunState state;
  state.step = state.optimizer_steps = 12;
  state.param_groups = {{{"w"}, 1, 0.5}};
  state.config_json = R"({"dp": 2, "list": [1, {"a": null}]})";
  ckpt::write_checkpoint(folder, state, layout_case, test::PlacedValues());
  Files files;
  for (std::size_t f = 0; f < file_count; ++f) {
    const std::string path = folder + "/" + file_name(f);
    files.push_back(std::filesystem::exists(path) ? fuzz::read_bytes(path) : "");
  }
  return files;
}

std::vector<std::string> seeds() {
  LayoutCase two;
  two.params = {{"w", {3, 5}, DType::bf16, false, false},
                {"b", {7}, DType::fp32, false, false},
                {"s", {}, DType::fp32, true, false},
                {"e", {2, 2}, DType::fp32, false, true}};
  two.options.dp_size = 2;
  two.options.bucket_size_elems = 4;
  LayoutCase one;
  one.params = {{"w", {4}, DType::fp32, false, false}};
  std::vector<std::string> seeds;
  for (const LayoutCase& layout_case : {two, one}) {
    Files files = files_of(layout_case);
    seeds.push_back(join(files));
    const auto [block, rest] = put_together(*take_apart(files[0]));
    files[0] = stamped(block, rest);
    seeds.push_back(join(files));
  }
  return seeds;
}

/// inspect and load.
void look_at(const ckpt::Checkpoint& checkpoint) {
  const std::size_t text =
      to_json(checkpoint.state()).size() + layout_case_json(checkpoint.layout_case()).dump().size();
  fuzz::require(text > 0, "a checkpoint describes itself");
  constexpr std::int64_t most_elems = 1 << 14;
  std::vector<float> values;
  for (std::size_t p = 0; p < checkpoint.layout().specs.size(); ++p) {
    const Range range{0, std::min(checkpoint.layout().specs[p].numel(), most_elems)};
    std::int64_t covered = 0;
    ckpt::for_each_piece(checkpoint.layout(), static_cast<int>(p), range,
                         [&](const ckpt::Piece& piece) { covered += piece.param_range.size(); });
    fuzz::require(covered == range.size(), "pieces cover a parameter");
    values.resize(static_cast<std::size_t>(range.size()));
    for (const ckpt::State state : ckpt::all_states)
      checkpoint.read(static_cast<int>(p), state, range, values.data());
  }
}

/// Whether everything could be read.
bool loads(const std::string& folder) {
  try {
    const ckpt::Checkpoint checkpoint(folder);
    look_at(checkpoint);
    return true;
  } catch (const InputError&) {  // anything else has been found
    return false;
  }
}

bool is_whole(const std::string& folder) {
  try {
    return ckpt::verify(folder).faults.empty();
  } catch (const InputError&) {  // there is no checkpoint.h5
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  fuzz::plant_seeds(*argc, *argv, seeds());
  std::filesystem::create_directories(scratch().path("c"));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string folder = scratch().path("c");
  const Files files = split({reinterpret_cast<const char*>(data), size});
  for (std::size_t f = 0; f < file_count; ++f) {
    const std::string path = folder + "/" + file_name(f);
    if (files[f].empty()) {
      std::filesystem::remove(path);
    } else {
      fuzz::write_bytes(path, files[f]);
    }
  }
  const bool loaded = loads(folder);
  fuzz::require(loaded || !is_whole(folder), "what verify calls whole can be loaded");
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int number) {
  RandomStream random(number);
  Files files = split({reinterpret_cast<const char*>(data), size});
  const auto chosen = static_cast<std::size_t>(random.below(8));
  if (chosen == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (chosen < file_count) {
    files[chosen] = fuzz::mutated(files[chosen], files[chosen].size() + 16);
  } else {
    files[0] = changed_checkpoint_file(files[0], random);
  }
  std::string input = join(files);
  input.resize(std::min(input.size(), max_size));
  std::memcpy(data, input.data(), input.size());
  return input.size();
}
