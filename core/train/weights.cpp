#include "core/train/weights.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <array>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/data/narrowing.h"
#include "core/data/tensor_files.h"

namespace zero1 {

void init_weights(DataParallel& data_parallel, std::uint64_t seed) {
  for (int p = 0; p < static_cast<int>(data_parallel.layout().specs.size()); ++p) {
    data_parallel.set_param(p, data_parallel.model().initial_values(p, seed));
  }
}

namespace {

/// By tensor of the files, in their order.
std::vector<MappedTensor> fitting(const std::vector<ParamSpec>& specs, const TensorFiles& files,
                                  const std::string& path, const NameRules& rules) {
  std::vector<NamedShape> stored;
  for (const auto& [name, tensor] : files.tensors()) stored.push_back({name, tensor.entry->shape});
  std::vector<NamedShape> wanted;
  for (const ParamSpec& spec : specs) wanted.push_back({spec.name, spec.shape});
  std::vector<MappedTensor> mapped = map_tensors(rules, stored, StateTensors::none, path);
  const TensorFit fit = compare_tensors(wanted, mapped);
  if (!fit.faults.empty())
    throw InputError(fmt::format("{} does not fit the model:{}{}", path, fit.faults, fit.advice));
  return mapped;
}

}  // namespace

std::vector<MappedTensor> check_weights(const std::vector<ParamSpec>& specs, const std::string& path,
                                        const NameRules& rules) {
  return fitting(specs, TensorFiles(path), path, rules);
}

void load_weights(DataParallel& data_parallel, const std::string& path, const NameRules& rules) {
  const TensorFiles files(path);
  const std::vector<ParamSpec>& specs = data_parallel.layout().specs;
  std::map<std::string, MappedTensor> by_name;
  for (MappedTensor& tensor : fitting(specs, files, path, rules)) {
    if (!tensor.excluded) by_name[tensor.name] = std::move(tensor);
  }
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const MappedTensor& mapped = by_name.at(specs[p].name);
    const TensorFiles::Tensor& tensor = *files.find(mapped.stored);
    const std::vector<std::int64_t>& shape = tensor.entry->shape;
    std::vector<float> values = tensor.read_fp32({0, tensor.entry->numel()});
    if (mapped.transposed) values = transpose(values, shape[0], shape[1]);
    if (const auto beyond = first_overflow(values.data(), specs[p].numel(), specs[p].dtype)) {
      throw InputError(
          fmt::format("{}: {}[{}] {}; train in bfloat16 (--bf16) or float32", path, printable(specs[p].name),
                      *beyond, describe_overflow(values[static_cast<std::size_t>(*beyond)], specs[p].dtype)));
    }
    data_parallel.set_param(static_cast<int>(p), values);
  }
}

void save_weights(const DataParallel& data_parallel, const std::string& path) {
  std::vector<SafetensorsEntry> entries;
  std::int64_t offset = 0;
  for (const ParamSpec& spec : data_parallel.layout().specs) {
    const std::int64_t bytes = spec.numel() * size_bytes(spec.dtype);
    entries.push_back({spec.name, spec.dtype, spec.shape, {offset, offset + bytes}});
    offset += bytes;
  }
  SafetensorsWriter file(path, std::move(entries), {{"format", "pt"}});
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
