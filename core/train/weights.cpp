#include "core/train/weights.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/data/safetensors.h"

namespace zero1 {

void init_weights(DataParallel& data_parallel, std::uint64_t seed) {
  for (int p = 0; p < static_cast<int>(data_parallel.layout().specs.size()); ++p) {
    data_parallel.set_param(p, data_parallel.model().initial_values(p, seed));
  }
}

namespace {

/// Whether `stored` is the parameter's shape but for the rows that pad the vocabulary.
bool lacks_padding_only(const std::vector<std::int64_t>& stored, const std::vector<std::int64_t>& wanted,
                        const TrainConfig& config) {
  return !wanted.empty() && stored.size() == wanted.size() && stored[0] == config.vocab_size &&
         wanted[0] == config.padded_vocab_size() &&
         std::equal(stored.begin() + 1, stored.end(), wanted.begin() + 1);
}

void check_names_and_shapes(const std::vector<ParamSpec>& specs, const SafetensorsReader& file,
                            const TrainConfig& config) {
  std::string faults;
  for (const ParamSpec& spec : specs) {
    const SafetensorsEntry* entry = file.find(spec.name);
    if (entry == nullptr) {
      faults += fmt::format("\n  missing: {}", spec.name);
    } else if (entry->shape != spec.shape && !lacks_padding_only(entry->shape, spec.shape, config)) {
      faults += fmt::format("\n  {}: shape [{}], expected [{}]", spec.name, fmt::join(entry->shape, ", "),
                            fmt::join(spec.shape, ", "));
    }
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    bool expected = false;
    for (const ParamSpec& spec : specs) expected = expected || spec.name == entry.name;
    if (!expected) faults += fmt::format("\n  unexpected: {}", entry.name);
  }
  if (!faults.empty()) throw InputError(fmt::format("{} does not fit the model:{}", config.init, faults));
}

}  // namespace

void check_weights(const std::vector<ParamSpec>& specs, const TrainConfig& config) {
  check_names_and_shapes(specs, SafetensorsReader(config.init), config);
}

void load_weights(DataParallel& data_parallel, const TrainConfig& config) {
  const SafetensorsReader file(config.init);
  const std::vector<ParamSpec>& specs = data_parallel.layout().specs;
  check_names_and_shapes(specs, file, config);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const SafetensorsEntry& entry = *file.find(specs[p].name);
    std::vector<float> values = file.read_fp32(entry, {0, entry.numel()});
    if (entry.numel() < specs[p].numel()) {
      const std::vector<float> last_row(values.end() - entry.numel() / entry.shape[0], values.end());
      while (static_cast<std::int64_t>(values.size()) < specs[p].numel())
        values.insert(values.end(), last_row.begin(), last_row.end());
    }
    data_parallel.set_param(static_cast<int>(p), values);
  }
}

void save_weights(const DataParallel& data_parallel, const TrainConfig& config) {
  std::vector<SafetensorsEntry> entries;
  std::int64_t offset = 0;
  for (const ParamSpec& spec : data_parallel.layout().specs) {
    const std::int64_t bytes = spec.numel() * size_bytes(spec.dtype);
    entries.push_back({spec.name, spec.dtype, spec.shape, {offset, offset + bytes}});
    offset += bytes;
  }
  SafetensorsWriter file(config.save_weights, std::move(entries),
                         {{"format", "pt"}, {"zero1_model", model_json(config)}});
  for (std::size_t p = 0; p < data_parallel.layout().specs.size(); ++p) {
    const std::vector<float> values = data_parallel.get_param(static_cast<int>(p));
    file.write_fp32(p, 0, values.data(), static_cast<std::int64_t>(values.size()));
  }
  file.close();
}

std::uint64_t hash_params(const DataParallel& data_parallel) {
  XXH64_hash_t hash = 0;
  for (int p = 0; p < static_cast<int>(data_parallel.layout().specs.size()); ++p) {
    const std::vector<float> values = data_parallel.get_param(p);
    hash = XXH3_64bits_withSeed(values.data(), values.size() * sizeof(float), hash);
  }
  return hash;
}

void check_ranks_hold_same_params(DataParallel& data_parallel) {
  RankContext& context = data_parallel.context();
  // 52 bits are exact in fp64, the communicator's type for scalars; max(x) and max(-x) = -min(x) are
  // opposite only where all are equal.
  const auto mine = static_cast<double>(hash_params(data_parallel) >> 12);
  std::array<double, 2> extremes{mine, -mine};
  const DeviceMemory memory = context.device.allocate(sizeof(extremes), MemoryKind::communication);
  const TensorView view = memory.view(DType::fp64);
  Stream& stream = context.communication;
  context.device.copy_from_host(stream, view, extremes.data());
  context.groups.data_parallel->all_reduce(stream, view, ReduceOp::max);
  context.device.copy_to_host(stream, extremes.data(), view);
  stream.synchronize();
  if (extremes[0] != -extremes[1])
    throw Error("the ranks' parameters differ from each other: please report this as a bug");
}

}  // namespace zero1
