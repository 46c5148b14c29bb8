#include "ckpt/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "ckpt/hdf5.h"
#include "ckpt/mapped_source.h"
#include "ckpt/rank_file.h"
#include "ckpt/state_rules.h"
#include "ckpt/write.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/data/narrowing.h"
#include "core/data/safetensors.h"

namespace zero1::ckpt {
namespace {

/// What a gathered file holds of a checkpoint: its parameters by the names, without those left out.
class Gathered {
 public:
  Gathered(const Checkpoint& checkpoint, const NameRules& rules)
      : mapped_(map_tensors(rules, named_shapes(checkpoint.layout().specs), StateTensors::none,
                            checkpoint.folder())),
        source_(checkpoint, kept()),
        state_(checkpoint.state()),
        layout_case_(checkpoint.layout_case()) {
    layout_case_.params.clear();
    for (std::size_t p = 0; p < mapped_.size(); ++p) {
      if (mapped_[p].excluded) continue;
      ParamSpec spec = checkpoint.layout().specs[p];
      spec.name = mapped_[p].name;
      spec.shape = mapped_[p].shape;
      layout_case_.params.push_back(std::move(spec));
    }
    if (layout_case_.params.empty()) throw InputError("--exclude: leaves nothing to write");
    rename_groups(state_.param_groups, mapped_);
  }

  const std::vector<ParamSpec>& specs() const { return layout_case_.params; }
  const ElementSource& source() const { return source_; }  ///< by index into specs
  std::string state_json() const { return to_json(state_); }
  std::int64_t step() const { return state_.step; }
  std::string model_json() const { return model_fields(state_.config_json, "/state"); }
  std::string layout_json() const { return layout_case_json(layout_case_).dump(); }
  std::vector<std::string> notes() const { return describe(mapped_); }

 private:
  std::vector<MappedSource::Param> kept() const {
    std::vector<MappedSource::Param> params;
    for (std::size_t p = 0; p < mapped_.size(); ++p) {
      if (!mapped_[p].excluded) params.push_back(mapped_param(static_cast<int>(p), mapped_[p]));
    }
    return params;
  }

  std::vector<MappedTensor> mapped_;
  MappedSource source_;
  RunState state_;
  LayoutCase layout_case_;
};

/// Calls `write(range, values)` for one parameter's elements, a buffer at a time.
class Reading {
 public:
  Reading(const Gathered& gathered, const GatherOptions& options, std::int64_t total_bytes)
      : gathered_(gathered), options_(options), total_bytes_(total_bytes) {
    constexpr std::int64_t smallest = 64 << 10;
    constexpr std::int64_t largest = 1 << 20;  // stays in the cache from reading it to writing it
    chunk_elems_ = std::clamp(options.mem_limit_bytes / 2, smallest, largest) / elem_bytes;
  }

  template <class Write>
  void read(int param, State state, Write&& write) {
    const std::int64_t elems = gathered_.specs()[static_cast<std::size_t>(param)].numel();
    for (std::int64_t at = 0; at < elems; at += chunk_elems_) {
      const Range range{at, std::min(elems, at + chunk_elems_)};
      values_.resize(static_cast<std::size_t>(range.size()));
      gathered_.source().read(param, state, range, values_.data());
      write(range, values_.data());
      done_bytes_ += range.size() * elem_bytes;
      if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
    }
  }

 private:
  const Gathered& gathered_;
  const GatherOptions& options_;
  std::int64_t total_bytes_;
  std::int64_t chunk_elems_ = 0;
  std::int64_t done_bytes_ = 0;
  std::vector<float> values_;
};

std::vector<State> gathered_states(const GatherOptions& options) {
  if (options.model_only) return {State::param};
  return {all_states.begin(), all_states.end()};
}

std::int64_t gathered_bytes(const Gathered& gathered, const GatherOptions& options) {
  std::int64_t elems = 0;
  for (const ParamSpec& spec : gathered.specs()) elems += spec.numel();
  return elems * elem_bytes * static_cast<std::int64_t>(gathered_states(options).size());
}

std::string file_name_of(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string tensor_name(const std::string& param, State state) {
  return state == State::param ? param : fmt::format("{}.{}", param, name(state));
}

/// Creates the datasets of a gathered file; the byte offset of each, by parameter and state.
std::map<std::pair<int, State>, std::int64_t> create_gathered(const Gathered& gathered,
                                                              const std::string& path,
                                                              const GatherOptions& options) {
  const Hdf5Lock lock;
  std::map<std::pair<int, State>, std::int64_t> offsets;
  Handle file = create_file(path);
  write_attribute(file.get(), "format", "zero1-lab gathered checkpoint", path);
  write_attribute(file.get(), "version", format_version, path);
  if (options.model_only) {
    write_attribute(file.get(), "step", gathered.step(), path);
    write_string(file.get(), "model_config", gathered.model_json(), path);
  } else {
    write_string(file.get(), "state", gathered.state_json(), path);
  }
  write_string(file.get(), "layout", gathered.layout_json(), path);
  {  // the group is closed before the file
    const Handle model = create_group(file.get(), "model", path);
    for (std::size_t p = 0; p < gathered.specs().size(); ++p) {
      const ParamSpec& spec = gathered.specs()[p];
      const Handle group = open_or_create_groups(model.get(), group_path(spec.name), path);
      for (const State state : gathered_states(options)) {
        offsets[{static_cast<int>(p), state}] =
            create_float_array(group.get(), std::string(name(state)), spec.shape, path);
      }
    }
  }
  file.close(path, "H5Fclose");
  return offsets;
}

/// One safetensors file to be written.
struct Shard {
  std::string path;
  std::vector<SafetensorsEntry> entries;
  std::vector<std::pair<int, State>> sources;  ///< of each entry
  std::int64_t bytes = 0;                      ///< of the tensors
};

/// Main parameters and moments belong together, in fp32: rounded parameters would go on from another place.
DType stored_dtype(const ParamSpec& spec, State state, const GatherOptions& options) {
  if (state != State::param || !options.model_only) return DType::fp32;
  return options.dtype.value_or(spec.dtype);
}

/// Cuts between tensors, in model order, before a file would grow beyond the limit. As Hugging Face's
/// libraries do; a tensor that is larger than the limit is alone in its file.
std::vector<Shard> cut_into_shards(const Gathered& gathered, const GatherOptions& options) {
  std::vector<Shard> shards(1);
  const std::vector<ParamSpec>& specs = gathered.specs();
  for (int p = 0; p < static_cast<int>(specs.size()); ++p) {
    const ParamSpec& spec = specs[static_cast<std::size_t>(p)];
    for (const State state : gathered_states(options)) {
      const DType dtype = stored_dtype(spec, state, options);
      const std::int64_t bytes = spec.numel() * size_bytes(dtype);
      const bool full = options.max_shard_bytes && shards.back().bytes + bytes > *options.max_shard_bytes;
      if (full && !shards.back().entries.empty()) shards.emplace_back();
      shards.back().entries.push_back({tensor_name(spec.name, state), dtype, spec.shape});
      shards.back().sources.emplace_back(p, state);
      shards.back().bytes += bytes;
    }
  }
  return shards;
}

/// A parameter may be called as another one's state is.
void refuse_ambiguous(const std::vector<Shard>& shards) {
  std::set<std::string_view> names;
  for (const Shard& shard : shards) {
    for (const SafetensorsEntry& entry : shard.entries) {
      if (names.insert(entry.name).second) continue;
      throw InputError(
          fmt::format("'{}' would be a parameter and another one's state at once in safetensors; gather to "
                      "HDF5, or with --model-only",
                      entry.name));
    }
  }
}

constexpr std::string_view safetensors_ending = ".safetensors";

/// model.safetensors, or model-00001-of-00003.safetensors and so on.
void name_shards(std::vector<Shard>& shards, const std::string& path) {
  const std::string stem = path.substr(0, path.size() - safetensors_ending.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].path = shards.size() == 1
                         ? path
                         : fmt::format("{}-{:05}-of-{:05}{}", stem, i + 1, shards.size(), safetensors_ending);
  }
}

std::string index_json(const std::vector<Shard>& shards) {
  std::int64_t total = 0;
  nlohmann::json weight_map = nlohmann::json::object();  // keys come sorted
  for (const Shard& shard : shards) {
    total += shard.bytes;
    for (const SafetensorsEntry& entry : shard.entries) weight_map[entry.name] = file_name_of(shard.path);
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n";
}

/// Before the writer does, which knows neither the file's name yet nor the flag that helps.
void check_fits(const SafetensorsEntry& entry, Range range, const float* values, const std::string& path) {
  const auto beyond = first_overflow(values, range.size(), entry.dtype);
  if (!beyond) return;
  throw InputError(fmt::format("{}: {}[{}] {}; choose a wider --dtype", path, printable(entry.name),
                               range.start + *beyond, describe_overflow(values[*beyond], entry.dtype)));
}

void write_shard(const Shard& shard, const std::string& path, Reading& reading,
                 const std::map<std::string, std::string>& metadata) {
  SafetensorsWriter file(path, shard.entries, metadata);
  for (std::size_t entry = 0; entry < shard.entries.size(); ++entry) {
    reading.read(shard.sources[entry].first, shard.sources[entry].second,
                 [&](Range range, const float* values) {
                   check_fits(shard.entries[entry], range, values, shard.path);
                   file.write_fp32(entry, range.start, values, range.size());
                 });
  }
  file.close();
}

/// Files that have got their names; they lose them again unless all have.
class PublishedFiles {
 public:
  PublishedFiles() = default;
  PublishedFiles(const PublishedFiles&) = delete;
  PublishedFiles& operator=(const PublishedFiles&) = delete;
  ~PublishedFiles() {
    for (const std::string& path : paths_) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  }
  void publish(PendingFolder& pending, const std::string& path) {
    pending.publish_file(file_name_of(path), path);
    paths_.push_back(path);
  }
  std::vector<std::string> keep() { return std::exchange(paths_, {}); }

 private:
  std::vector<std::string> paths_;
};

}  // namespace

std::vector<std::string> gather_hdf5(const Checkpoint& checkpoint, const std::string& path,
                                     const GatherOptions& options) {
  const Gathered gathered(checkpoint, options.names);
  refuse_existing(path, "file");
  // Written in a hidden folder beside its place, whose lock and removal it shares with checkpoints.
  PendingFolder pending(path);
  check_space(pending.path(), gathered_bytes(gathered, options));
  const std::string temporary = pending.path() + "/" + file_name_of(path);
  const auto offsets = create_gathered(gathered, temporary, options);
  RawFile file(temporary);
  Reading reading(gathered, options, gathered_bytes(gathered, options));
  for (const auto& [key, offset] : offsets) {
    reading.read(key.first, key.second, [&, start = offset](Range range, const float* values) {
      file.write_at(start + range.start * elem_bytes, values, range.size() * elem_bytes);
    });
  }
  file.flush_to_disk();
  pending.publish_file(file_name_of(path), path);
  return gathered.notes();
}

GatheredFiles gather_safetensors(const Checkpoint& checkpoint, const std::string& path,
                                 const GatherOptions& options) {
  if (!path.ends_with(safetensors_ending)) {
    throw InputError(fmt::format("{}: must end in {}", path, safetensors_ending));
  }
  if (!options.model_only && options.dtype.value_or(DType::fp32) != DType::fp32) {
    throw InputError(
        fmt::format("--dtype {}: with the optimizer's states parameters are written in float32, the main "
                    "parameters that AdamW goes on from; parameters in {} need --model-only",
                    name(*options.dtype), name(*options.dtype)));
  }
  const Gathered gathered(checkpoint, options.names);
  std::vector<Shard> shards = cut_into_shards(gathered, options);
  refuse_ambiguous(shards);
  name_shards(shards, path);
  const std::string index = path + ".index.json";
  std::int64_t total_bytes = 0;
  for (const Shard& shard : shards) {
    refuse_existing(shard.path, "file");
    total_bytes += shard.bytes;
  }
  if (shards.size() > 1) refuse_existing(index, "file");

  PendingFolder pending(path);
  check_space(pending.path(), total_bytes);
  Reading reading(gathered, options, gathered_bytes(gathered, options));
  std::map<std::string, std::string> metadata = {{"format", "pt"}, {layout_key, gathered.layout_json()}};
  // A step count without moments would be believed by whoever reads it: weights alone are a new run's start.
  if (options.model_only) {
    metadata[step_key] = std::to_string(gathered.step());
    metadata[model_key] = gathered.model_json();
  } else {
    metadata[state_key] = gathered.state_json();
  }
  for (const Shard& shard : shards) {
    write_shard(shard, pending.path() + "/" + file_name_of(shard.path), reading, metadata);
  }
  if (shards.size() > 1) write_file(pending.path() + "/" + file_name_of(index), index_json(shards));
  PublishedFiles published;
  for (const Shard& shard : shards) published.publish(pending, shard.path);
  if (shards.size() > 1) published.publish(pending, index);
  return {published.keep(), gathered.notes()};
}

}  // namespace zero1::ckpt
