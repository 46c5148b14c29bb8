#include "core/data/tensor_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_io.h"
#include "core/base/strict_json.h"
#include "core/base/units.h"
#include "core/data/safetensors_header.h"

namespace zero1 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view file_ending = ".safetensors";
constexpr std::string_view index_ending = ".safetensors.index.json";
constexpr const char* sharding_key = "DCP_SHARDING_INFO";
constexpr int max_json_depth = 64;

std::string file_name_of(const std::string& path) {
  return fs::path(path).filename().string();
}

/// The names in a folder that end so, sorted.
std::vector<std::string> names_in(const std::string& folder, std::string_view ending) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(ending) && !name.starts_with(".")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

using WeightMap = std::map<std::string, std::string>;

WeightMap read_weight_map(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return parse_strict_json(text, max_json_depth).at("weight_map").get<WeightMap>();
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{}: not an index of safetensors files: {}", path, error.what()));
  }
}

/// The files that the index names, or nothing where it is no index at all: then it says nothing of others.
std::vector<std::string> files_of_index(const std::string& path) {
  std::vector<std::string> files;
  try {
    for (const auto& [tensor, file] : read_weight_map(path)) files.push_back(file);
  } catch (const Error&) {
    return {};
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

/// Of "model-00001-of-00003.safetensors" 3; nothing where the name says no such thing.
std::optional<int> parts_by_name(std::string_view name) {
  name.remove_suffix(name.ends_with(file_ending) ? file_ending.size() : 0);
  const auto take_digits = [&]() -> std::string_view {
    std::size_t digits = 0;
    while (digits < name.size() && name[name.size() - 1 - digits] >= '0' &&
           name[name.size() - 1 - digits] <= '9')
      ++digits;
    const std::string_view taken = name.substr(name.size() - digits);
    name.remove_suffix(digits);
    return taken;
  };
  const std::string_view total = take_digits();
  constexpr std::string_view of = "-of-";
  if (total.empty() || total.size() > 9 || !name.ends_with(of)) return std::nullopt;
  name.remove_suffix(of.size());
  if (take_digits().empty()) return std::nullopt;
  return std::stoi(std::string(total));
}

/// By tensor, where a shard's piece of it begins in the whole; nothing where the file is no such shard.
std::optional<std::map<std::string, std::vector<std::int64_t>>> saved_offsets(const SafetensorsReader& file,
                                                                              const std::string& path) {
  const auto found = file.metadata().find(sharding_key);
  if (found == file.metadata().end()) return std::nullopt;
  std::map<std::string, std::vector<std::int64_t>> offsets;
  try {
    const nlohmann::json sharding = parse_strict_json(found->second, max_json_depth);
    for (const auto& [tensor, info] : sharding.items()) {
      for (const nlohmann::json& offset : info.at("saved_offsets")) {
        if (!offset.is_number_unsigned() || !std::in_range<std::int64_t>(offset.get<std::uint64_t>()))
          throw InputError(fmt::format("{} has an offset of {}", in_quotes(tensor), offset.dump()));
        offsets[tensor].push_back(offset.get<std::int64_t>());
      }
      offsets.try_emplace(tensor);
    }
  } catch (const std::exception& error) {
    throw InputError(fmt::format("{}: its metadata {} cannot be read: {}", path, sharding_key, error.what()));
  }
  return offsets;
}

/// Whether two boxes of one tensor have elements in common.
template <class Piece>
bool overlap(const Piece& a, const Piece& b) {
  for (std::size_t d = 0; d < a.offsets.size(); ++d) {
    const Range of_a{a.offsets[d], a.offsets[d] + a.entry->shape[d]};
    if (intersect(of_a, {b.offsets[d], b.offsets[d] + b.entry->shape[d]}).empty()) return false;
  }
  return a.entry->numel() > 0 && b.entry->numel() > 0;
}

}  // namespace

void refuse_part_of_model(const SafetensorsReader& file, const std::string& path) {
  const std::string folder = parent_folder(path);
  const std::string name = file_name_of(path);
  for (const std::string& index : names_in(folder, index_ending)) {
    const std::vector<std::string> files = files_of_index(folder + "/" + index);
    if (std::find(files.begin(), files.end(), name) == files.end()) continue;
    if (files.size() == 1) return;
    throw InputError(fmt::format("{}: is one of the {} files of a model; name the index, which knows all: {}",
                                 path, files.size(), (fs::path(path).parent_path() / index).string()));
  }
  if (file.metadata().contains(sharding_key)) {
    std::vector<std::string> others = names_in(folder, file_ending);
    std::erase(others, name);
    throw InputError(fmt::format(
        "{}: is one shard of a distributed checkpoint (metadata {}): it holds pieces of tensors. {}", path,
        sharding_key,
        others.empty()
            ? "The other shards are not beside it; name the folder that holds all of them"
            : fmt::format("Name the folder, so that all shards are put together: {} (beside it: {})", folder,
                          fmt::join(others, ", "))));
  }
  const std::optional<int> parts = parts_by_name(name);
  if (!parts || *parts < 2) return;
  throw InputError(fmt::format(
      "{}: by its name one of {} files of a model, and no index (*{}) beside it names it. Put the "
      "index beside it and name that; or rename the file if it is a whole model",
      path, *parts, index_ending));
}

TensorFiles::TensorFiles(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    open_folder(path);
  else if (path.ends_with(".json"))
    open_index(path);
  else
    open_file(path);
}

const TensorFiles::Tensor* TensorFiles::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const std::map<std::string, std::string>& TensorFiles::metadata() const {
  static const std::map<std::string, std::string> none;
  return files_.empty() ? none : files_.front()->metadata();
}

const SafetensorsReader& TensorFiles::add(const std::string& path) {
  return *files_.emplace_back(std::make_unique<SafetensorsReader>(path));
}

void TensorFiles::open_file(const std::string& path) {
  const SafetensorsReader& file = add(path);
  refuse_part_of_model(file, path);
  for (const SafetensorsEntry& entry : file.entries()) {
    Tensor& tensor = tensors_[entry.name];
    tensor.entry = &entry;
    tensor.pieces_ = {{&file, &entry, {}}};
  }
}

void TensorFiles::open_index(const std::string& path) {
  std::map<std::string, const SafetensorsReader*> files;
  for (const auto& [name, file] : read_weight_map(path)) {
    if (file.empty() || file.find('/') != std::string::npos || file.starts_with(".")) {
      throw InputError(fmt::format("{}: {} is no file beside the index", path, in_quotes(file)));
    }
    const SafetensorsReader*& reader = files[file];
    if (reader == nullptr) reader = &add(parent_folder(path) + "/" + file);
    const SafetensorsEntry* entry = reader->find(name);
    if (entry == nullptr)
      throw InputError(fmt::format("{}: {} has no tensor {}", path, in_quotes(file), in_quotes(name)));
    tensors_[name].entry = entry;
    tensors_[name].pieces_ = {{reader, entry, {}}};
  }
  for (const auto& [file, reader] : files) {
    for (const SafetensorsEntry& entry : reader->entries()) {
      const Tensor* known = find(entry.name);
      if (known == nullptr || known->pieces_.front().file != reader) {
        throw InputError(fmt::format("{}: tensor {} of {} is not in the index", path, in_quotes(entry.name),
                                     in_quotes(file)));
      }
    }
    check_same_origin(*reader, path, file);
    const auto offsets = saved_offsets(*reader, file);
    if (!offsets) continue;
    for (const auto& [name, of_tensor] : *offsets) {
      if (std::all_of(of_tensor.begin(), of_tensor.end(), [](std::int64_t offset) { return offset == 0; }))
        continue;
      throw InputError(fmt::format(
          "{}: {} holds a piece of tensor {} and not the whole (metadata {}); name the folder, so "
          "that all shards are put together",
          path, in_quotes(file), in_quotes(name), sharding_key));
    }
  }
}

/// Files of two exports under one index would give one's parameters with the other's step.
void TensorFiles::check_same_origin(const SafetensorsReader& file, const std::string& path,
                                    const std::string& name) const {
  constexpr std::string_view own_prefix = "zero1_";
  const auto of_export = [&](const SafetensorsReader& each) {
    std::map<std::string, std::string> own = each.metadata();
    std::erase_if(own, [&](const auto& item) { return !item.first.starts_with(own_prefix); });
    return own;
  };
  if (of_export(file) == of_export(*files_.front())) return;
  throw InputError(
      fmt::format("{}: the files that it names come from different exports: the metadata of {} differ", path,
                  in_quotes(name)));
}

void TensorFiles::open_folder(const std::string& path) {
  const std::vector<std::string> indices = names_in(path, index_ending);
  if (indices.size() == 1) return open_index(path + "/" + indices.front());
  const std::vector<std::string> names = names_in(path, file_ending);
  if (indices.size() > 1) {
    throw InputError(
        fmt::format("{}: holds several indices, name one of them: {}", path, fmt::join(indices, ", ")));
  }
  if (names.empty()) throw InputError(fmt::format("{}: is a folder without {} files", path, file_ending));
  std::vector<std::string> whole;
  for (const std::string& name : names) {
    if (!SafetensorsReader(path + "/" + name).metadata().contains(sharding_key)) whole.push_back(name);
  }
  if (whole.empty()) return open_shards(path, names);
  if (names.size() == 1) return open_file(path + "/" + names.front());
  throw InputError(fmt::format("{}: holds {} and no index (*{}); name one of them: {}", path,
                               counted(names.size(), "safetensors file"), index_ending,
                               fmt::join(names, ", ")));
}

void TensorFiles::open_shards(const std::string& folder, const std::vector<std::string>& names) {
  if (names.size() == 1) {
    throw InputError(fmt::format(
        "{}: holds a single shard of a distributed checkpoint, {} (metadata {}). Shards do not "
        "record how many there are, so the others may be missing: put them beside it. If one rank "
        "has written it alone, let PyTorch's consolidate_safetensors_files make a whole file of it",
        folder, names.front(), sharding_key));
  }
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    const SafetensorsReader& file = add(path);
    const auto offsets = *saved_offsets(file, path);
    for (const SafetensorsEntry& entry : file.entries()) {
      const auto found = offsets.find(entry.name);
      if (found == offsets.end() || found->second.size() != entry.shape.size()) {
        throw InputError(fmt::format("{}: its metadata {} do not say where the piece [{}] of tensor {} lies",
                                     path, sharding_key, fmt::join(entry.shape, ", "),
                                     in_quotes(entry.name)));
      }
      tensors_[entry.name].pieces_.push_back({&file, &entry, found->second});
    }
  }
  for (auto& [name, tensor] : tensors_) check_whole(tensor, folder);
  merged_shards_ = names.size();
}

/// The whole's shape is what the pieces reach to; they must fill it, each element once.
void TensorFiles::check_whole(Tensor& tensor, const std::string& folder) {
  const std::vector<Tensor::Piece>& pieces = tensor.pieces_;
  SafetensorsEntry whole = *pieces.front().entry;
  whole.bytes = {};
  std::int64_t elems = 0;
  const auto fail = [&](const std::string& what) {
    throw InputError(fmt::format("{}: tensor {}: {}", folder, in_quotes(whole.name), what));
  };
  for (const Tensor::Piece& piece : pieces) {
    if (piece.entry->shape.size() != whole.shape.size() || piece.entry->dtype != whole.dtype ||
        piece.entry->foreign_dtype != whole.foreign_dtype)
      fail("its pieces differ in dtype or in number of dimensions");
    for (std::size_t d = 0; d < whole.shape.size(); ++d) {
      std::int64_t end = 0;
      if (__builtin_add_overflow(piece.offsets[d], piece.entry->shape[d], &end))
        fail("an offset is too large");
      whole.shape[d] = std::max(whole.shape[d], end);
    }
    elems += piece.entry->numel();
  }
  for (auto a = pieces.begin(); a != pieces.end(); ++a) {
    for (auto b = pieces.begin(); b != a; ++b) {
      if (overlap(*a, *b))
        fail(fmt::format("the pieces at [{}] and at [{}] overlap: are these shards of one checkpoint?",
                         fmt::join(b->offsets, ", "), fmt::join(a->offsets, ", ")));
    }
  }
  if (elems != whole.numel()) {
    fail(fmt::format("the shards hold {} of the {} elements of [{}]: a shard is missing", format_count(elems),
                     format_count(whole.numel()), fmt::join(whole.shape, ", ")));
  }
  tensor.entry = merged_.emplace_back(std::make_unique<SafetensorsEntry>(std::move(whole))).get();
}

std::vector<float> TensorFiles::Tensor::read_fp32(Range range) const {
  if (pieces_.size() == 1) return pieces_.front().file->read_fp32(*pieces_.front().entry, range);
  std::vector<float> values(static_cast<std::size_t>(range.size()));
  for (const Piece& piece : pieces_) read_piece(piece, range, values);
  return values;
}

/// A piece consists of runs that lie together in the whole, too: everything below the last dimension in
/// which the piece is narrower.
void TensorFiles::Tensor::read_piece(const Piece& piece, Range range, std::vector<float>& values) const {
  const std::vector<std::int64_t>& whole = entry->shape;
  const std::vector<std::int64_t>& part = piece.entry->shape;
  if (piece.entry->numel() == 0) return;
  std::size_t narrow = whole.size();  // dimensions behind it are whole
  while (narrow > 0 && whole[narrow - 1] == part[narrow - 1]) --narrow;
  std::int64_t below = 1;
  for (std::size_t d = narrow; d < whole.size(); ++d) below *= whole[d];
  const std::int64_t run = narrow == 0 ? below : below * part[narrow - 1];
  for (std::int64_t in_piece = 0; in_piece < piece.entry->numel(); in_piece += run) {
    // The run's first element, from indices in the piece to a position in the whole.
    std::int64_t start = 0;
    std::int64_t rest = in_piece / below;
    std::int64_t stride = below;
    for (std::size_t d = narrow; d-- > 0;) {
      start += (rest % part[d] + piece.offsets[d]) * stride;
      rest /= part[d];
      stride *= whole[d];
    }
    const Range wanted = intersect({start, start + run}, range);
    if (wanted.empty()) continue;
    const std::vector<float> read = piece.file->read_fp32(*piece.entry, wanted.shifted(in_piece - start));
    std::copy(read.begin(), read.end(), values.begin() + (wanted.start - range.start));
  }
}

}  // namespace zero1
