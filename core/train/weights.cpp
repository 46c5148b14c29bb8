#include "core/train/weights.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "core/base/at.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/data/narrowing.h"
#include "core/data/tensor_files.h"

namespace zero1 {

namespace {

DeviceMemory staging_for(const DataParallel& data_parallel, const TensorView& param) {
  return data_parallel.context().device.allocate(param.numel * size_bytes(DType::fp32), MemoryKind::other);
}

}  // namespace

void set_param(DataParallel& data_parallel, int param, std::span<const float> values) {
  const RankContext& context = data_parallel.context();
  const TensorView target = data_parallel.param(param);
  if (std::ssize(values) != target.numel) {
    throw InputError(fmt::format("parameter '{}' has {} elements, but {} values were given",
                                 at(data_parallel.layout().specs, param).name, target.numel, values.size()));
  }
  const DeviceMemory staging = staging_for(data_parallel, target);
  context.device.copy_from_host(context.compute, staging.view(DType::fp32), values.data());
  context.device.ops().cast(context.compute, target, staging.view(DType::fp32));
  context.compute.synchronize();
}

std::vector<float> get_param(const DataParallel& data_parallel, int param) {
  const RankContext& context = data_parallel.context();
  const TensorView source = data_parallel.param(param);
  std::vector<float> values(source.numel);
  const DeviceMemory staging = staging_for(data_parallel, source);
  context.device.ops().cast(context.compute, staging.view(DType::fp32), source);
  context.device.copy_to_host(context.compute, values.data(), staging.view(DType::fp32));
  context.compute.synchronize();
  return values;
}

void init_weights(DataParallel& data_parallel, std::uint64_t seed) {
  for (int p = 0; p < static_cast<int>(data_parallel.layout().specs.size()); ++p) {
    set_param(data_parallel, p, data_parallel.model().initial_values(p, seed));
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

/// By tensor of the files, in their order.
std::vector<MappedTensor> fitting(const std::vector<ParamSpec>& specs, const TensorFiles& files,
                                  const TrainConfig& config) {
  std::vector<NamedShape> stored;
  for (const auto& [name, tensor] : files.tensors()) stored.push_back({name, tensor.entry->shape});
  std::vector<MappedTensor> mapped = map_tensors(config.init_names, stored, StateTensors::none, config.init);
  std::map<std::string_view, const MappedTensor*> found;
  for (const MappedTensor& tensor : mapped) {
    if (!tensor.excluded) found[tensor.name] = &tensor;
  }
  std::vector<NamedShape> wanted;
  for (const ParamSpec& spec : specs) {
    const auto tensor = found.find(spec.name);
    const bool shorter =
        tensor != found.end() && lacks_padding_only(tensor->second->shape, spec.shape, config);
    wanted.push_back({spec.name, shorter ? tensor->second->shape : spec.shape});
  }
  const TensorFit fit = compare_tensors(wanted, mapped);
  if (!fit.faults.empty())
    throw InputError(fmt::format("{} does not fit the model:{}{}", config.init, fit.faults, fit.advice));
  return mapped;
}

}  // namespace

std::vector<MappedTensor> check_weights(const std::vector<ParamSpec>& specs, const TrainConfig& config) {
  return fitting(specs, TensorFiles(config.init), config);
}

void load_weights(DataParallel& data_parallel, const TrainConfig& config) {
  const TensorFiles files(config.init);
  const std::vector<ParamSpec>& specs = data_parallel.layout().specs;
  std::map<std::string, MappedTensor> by_name;
  for (MappedTensor& tensor : fitting(specs, files, config)) {
    if (!tensor.excluded) by_name[tensor.name] = std::move(tensor);
  }
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const MappedTensor& mapped = by_name.at(specs[p].name);
    const TensorFiles::Tensor& tensor = *files.find(mapped.stored);
    const std::vector<std::int64_t>& shape = tensor.entry->shape;
    const std::int64_t elems = tensor.entry->numel();
    std::vector<float> values = tensor.read_fp32({0, elems});
    if (mapped.transposed) values = transpose(values, shape[0], shape[1]);
    if (const auto beyond = first_overflow(values.data(), elems, specs[p].dtype)) {
      throw InputError(fmt::format("{}: {}[{}] {}; train in bfloat16 (--bf16) or float32", config.init,
                                   printable(specs[p].name), *beyond,
                                   describe_overflow(at(values, *beyond), specs[p].dtype)));
    }
    if (elems < specs[p].numel()) {
      const std::vector<float> last_row(values.end() - elems / mapped.shape[0], values.end());
      while (static_cast<std::int64_t>(values.size()) < specs[p].numel())
        values.insert(values.end(), last_row.begin(), last_row.end());
    }
    set_param(data_parallel, static_cast<int>(p), values);
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
    const std::vector<float> values = get_param(data_parallel, static_cast<int>(p));
    file.write_fp32(p, 0, values.data(), static_cast<std::int64_t>(values.size()));
  }
  file.close();
}

std::uint64_t hash_params(const DataParallel& data_parallel) {
  XXH64_hash_t hash = 0;
  for (int p = 0; p < static_cast<int>(data_parallel.layout().specs.size()); ++p) {
    const std::vector<float> values = get_param(data_parallel, p);
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
