#include "ckpt/gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "ckpt/hdf5.h"
#include "ckpt/rank_file.h"
#include "core/base/error.h"
#include "core/data/safetensors.h"

namespace zero1::ckpt {
namespace {

constexpr std::int64_t elem_bytes = sizeof(float);

/// Calls `write(range, values)` for one parameter's elements, a buffer at a time.
class Reading {
 public:
  Reading(const Checkpoint& checkpoint, const GatherOptions& options, std::int64_t total_bytes)
      : checkpoint_(checkpoint), options_(options), total_bytes_(total_bytes) {
    constexpr std::int64_t smallest = 64 << 10;
    constexpr std::int64_t largest = 8 << 20;
    chunk_elems_ = std::clamp(options.mem_limit_bytes / 2, smallest, largest) / elem_bytes;
  }

  template <class Write>
  void read(int param, State state, Write&& write) {
    const std::int64_t elems = checkpoint_.layout().specs[static_cast<std::size_t>(param)].numel();
    for (std::int64_t at = 0; at < elems; at += chunk_elems_) {
      const Range range{at, std::min(elems, at + chunk_elems_)};
      values_.resize(static_cast<std::size_t>(range.size()));
      checkpoint_.read(param, state, range, values_.data());
      write(range, values_.data());
      done_bytes_ += range.size() * elem_bytes;
      if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
    }
  }

 private:
  const Checkpoint& checkpoint_;
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

std::int64_t gathered_bytes(const Checkpoint& checkpoint, const GatherOptions& options) {
  std::int64_t elems = 0;
  for (const ParamSpec& spec : checkpoint.layout().specs) elems += spec.numel();
  return elems * elem_bytes * static_cast<std::int64_t>(gathered_states(options).size());
}

std::string tensor_name(const std::string& param, State state) {
  return state == State::param ? param : fmt::format("{}.{}", param, name(state));
}

/// Creates the datasets of a gathered file; the byte offset of each, by parameter and state.
std::map<std::pair<int, State>, std::int64_t> create_gathered(const Checkpoint& checkpoint,
                                                              const std::string& path,
                                                              const GatherOptions& options) {
  const Hdf5Lock lock;
  std::map<std::pair<int, State>, std::int64_t> offsets;
  Handle file = create_file(path);
  write_attribute(file.get(), "format", "zero1-lab gathered checkpoint", path);
  write_attribute(file.get(), "version", format_version, path);
  write_string(file.get(), "state", to_json(checkpoint.state()), path);
  const Handle model = create_group(file.get(), "model", path);
  for (std::size_t p = 0; p < checkpoint.layout().specs.size(); ++p) {
    const ParamSpec& spec = checkpoint.layout().specs[p];
    const Handle group = create_group(model.get(), spec.name, path);
    for (const State state : gathered_states(options)) {
      offsets[{static_cast<int>(p), state}] =
          create_float_array(group.get(), std::string(name(state)), spec.shape, path);
    }
  }
  file.close(path);
  return offsets;
}

/// The tensors of a .safetensors file as elements by parameter; states that it lacks are zero.
class SafetensorsSource : public ElementSource {
 public:
  explicit SafetensorsSource(const std::string& path) : file_(path) {
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (state_of(entry.name) != State::param) continue;
      if (!entry.foreign_dtype.empty()) {
        throw InputError(fmt::format("{}: tensor '{}' has dtype {}; parameters are F32, BF16, F16 or F64",
                                     path, entry.name, entry.foreign_dtype));
      }
      params_.push_back(
          {&entry, find_state(entry, State::exp_avg, path), find_state(entry, State::exp_avg_sq, path)});
    }
    // Files order tensors by element size; by name the order is the same whatever the dtypes.
    std::sort(params_.begin(), params_.end(),
              [](const Tensors& a, const Tensors& b) { return a.by_state[0]->name < b.by_state[0]->name; });
  }

  std::vector<ParamSpec> specs(DType dtype) const {
    std::vector<ParamSpec> specs;
    for (const Tensors& each : params_) {
      specs.push_back({each.by_state[0]->name, each.by_state[0]->shape, dtype, false, false});
    }
    return specs;
  }

  void read(int param, State state, Range range, float* out) const override {
    const SafetensorsEntry* entry =
        params_[static_cast<std::size_t>(param)].by_state[static_cast<std::size_t>(state)];
    if (entry == nullptr) {
      std::fill(out, out + range.size(), 0.0F);
      return;
    }
    const std::vector<float> values = file_.read_fp32(*entry, range);
    std::copy(values.begin(), values.end(), out);
  }

  const std::map<std::string, std::string>& metadata() const { return file_.metadata(); }

 private:
  struct Tensors {
    std::array<const SafetensorsEntry*, state_count> by_state;
  };

  /// NAME.exp_avg is a state of NAME where there is a NAME, and a parameter otherwise.
  State state_of(const std::string& tensor) const {
    for (const State state : {State::exp_avg, State::exp_avg_sq}) {
      const std::string suffix = fmt::format(".{}", name(state));
      if (tensor.ends_with(suffix) &&
          file_.find(std::string_view(tensor).substr(0, tensor.size() - suffix.size())) != nullptr)
        return state;
    }
    return State::param;
  }

  const SafetensorsEntry* find_state(const SafetensorsEntry& param, State state,
                                     const std::string& path) const {
    const SafetensorsEntry* entry = file_.find(tensor_name(param.name, state));
    if (entry != nullptr && entry->shape != param.shape) {
      throw InputError(
          fmt::format("{}: '{}' does not have the shape of '{}'", path, entry->name, param.name));
    }
    return entry;
  }

  SafetensorsReader file_;
  std::vector<Tensors> params_;
};

}  // namespace

void gather_hdf5(const Checkpoint& checkpoint, const std::string& path, const GatherOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    throw InputError(fmt::format("{}: is there already; name a new file", path));
  }
  // Written in a hidden folder beside its place, whose lock and removal it shares with checkpoints.
  PendingFolder pending(path);
  const std::string temporary = pending.path() + "/gathered.h5";
  const auto offsets = create_gathered(checkpoint, temporary, options);
  RawFile file(temporary);
  Reading reading(checkpoint, options, gathered_bytes(checkpoint, options));
  for (const auto& [key, offset] : offsets) {
    reading.read(key.first, key.second, [&, start = offset](Range range, const float* values) {
      file.write_at(start + range.start * elem_bytes, values, range.size() * elem_bytes);
    });
  }
  file.flush_to_disk();
  pending.publish_file("gathered.h5");
}

void gather_safetensors(const Checkpoint& checkpoint, const std::string& path, const GatherOptions& options) {
  std::vector<SafetensorsEntry> entries;
  for (const ParamSpec& spec : checkpoint.layout().specs) {
    for (const State state : gathered_states(options)) {
      const DType dtype = state == State::param ? options.dtype.value_or(spec.dtype) : DType::fp32;
      entries.push_back({tensor_name(spec.name, state), dtype, spec.shape});
    }
  }
  SafetensorsWriter file(path, std::move(entries),
                         {{"format", "pt"}, {"zero1_state", to_json(checkpoint.state())}});
  Reading reading(checkpoint, options, gathered_bytes(checkpoint, options));
  std::size_t entry = 0;
  for (int p = 0; p < static_cast<int>(checkpoint.layout().specs.size()); ++p) {
    for (const State state : gathered_states(options)) {
      reading.read(p, state, [&](Range range, const float* values) {
        file.write_fp32(entry, range.start, values, range.size());
      });
      ++entry;
    }
  }
  file.close();
}

void import_safetensors(const std::string& path, const std::string& folder, const LayoutOptions& layout,
                        DType param_dtype, const WriteOptions& options) {
  const SafetensorsSource source(path);
  RunState state;
  const auto recorded = source.metadata().find("zero1_state");
  if (recorded != source.metadata().end()) state = parse_run_state(recorded->second, path);
  write_checkpoint(folder, state, {"", source.specs(param_dtype), layout}, source, options);
}

}  // namespace zero1::ckpt
