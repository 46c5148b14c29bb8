// Any bytes as a .safetensors file: an InputError or tensors that can be read, written and read again.
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/data/safetensors.h"
#include "tests/fuzz/fuzz_support.h"

using namespace zero1;

namespace {

constexpr std::int64_t most_elems = 1 << 16;

const fuzz::Scratch& scratch() {
  static const fuzz::Scratch folder;
  return folder;
}

std::string seed(const std::vector<SafetensorsEntry>& entries,
                 const std::map<std::string, std::string>& metadata) {
  const std::string path = scratch().path("seed");
  SafetensorsWriter writer(path, entries, metadata);
  for (std::size_t e = 0; e < entries.size(); ++e) {
    std::vector<float> values(static_cast<std::size_t>(entries[e].numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.75F - 3;
    writer.write_fp32(e, 0, values.data(), entries[e].numel());
  }
  writer.close();
  return fuzz::read_bytes(path);
}

bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// In one piece and in two: the same elements.
std::vector<float> read_tensor(const SafetensorsReader& reader, const SafetensorsEntry& entry) {
  const std::int64_t elems = std::min(entry.numel(), most_elems);
  const std::vector<float> whole = reader.read_fp32(entry, {0, elems});
  const std::int64_t middle = elems / 3;
  std::vector<float> pieces = reader.read_fp32(entry, {0, middle});
  const std::vector<float> rest = reader.read_fp32(entry, {middle, elems});
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  fuzz::require(std::equal(whole.begin(), whole.end(), pieces.begin(), pieces.end(), same),
                "pieces of a tensor are the tensor");
  return whole;
}

/// What can be read is what can be written: the second reading gives the same tensors.
void check_round_trip(const SafetensorsReader& first) {
  std::vector<SafetensorsEntry> entries;
  for (const SafetensorsEntry& entry : first.entries()) {
    if (!entry.foreign_dtype.empty() || entry.numel() > most_elems) continue;
    entries.push_back(entry);
  }
  const std::string path = scratch().path("copy");
  SafetensorsWriter writer(path, entries, first.metadata());
  std::vector<std::vector<float>> values;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    values.push_back(read_tensor(first, *first.find(entries[e].name)));
    writer.write_fp32(e, 0, values[e].data(), static_cast<std::int64_t>(values[e].size()));
  }
  writer.close();
  const SafetensorsReader second(path);
  fuzz::require(second.entries().size() == entries.size(), "every tensor is written");
  fuzz::require(second.metadata() == first.metadata(), "the metadata are written");
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const SafetensorsEntry* copy = second.find(entries[e].name);
    fuzz::require(copy != nullptr && copy->shape == entries[e].shape && copy->dtype == entries[e].dtype,
                  "a tensor keeps its name, shape and dtype");
    const std::vector<float> again = read_tensor(second, *copy);
    fuzz::require(std::equal(again.begin(), again.end(), values[e].begin(), values[e].end(), same),
                  "a tensor keeps its values");
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  fuzz::plant_seeds(
      *argc, *argv,
      {seed({{"w", DType::fp32, {2, 3}}, {"b", DType::bf16, {5}}}, {{"format", "pt"}}),
       seed({{"h", DType::fp16, {}}, {"d", DType::fp64, {1, 2}}, {"none", DType::fp32, {0, 7}}}, {}),
       seed({}, {})});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = scratch().path("input");
  fuzz::write_bytes(path, {reinterpret_cast<const char*>(data), size});
  try {
    const SafetensorsReader reader(path);
    check_round_trip(reader);
  } catch (const InputError&) {  // anything else has been found
  }
  return 0;
}

/// Half of the time the header alone is changed, and its length set right, so that the change is looked at;
/// then, now and then, the data are cut or filled to what the header says.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int number) {
  RandomStream random(number);
  std::uint64_t header_bytes = 0;
  if (size >= 8) std::memcpy(&header_bytes, data, 8);
  if (size < 8 || header_bytes > size - 8 || random.below(2) == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  const std::string tensors(reinterpret_cast<const char*>(data) + 8 + header_bytes, size - 8 - header_bytes);
  std::string header(reinterpret_cast<const char*>(data) + 8, header_bytes);
  header = fuzz::mutated(header, std::min<std::size_t>(max_size - 8, header.size() + 64));
  std::string bytes(8, '\0');
  header_bytes = header.size();
  std::memcpy(bytes.data(), &header_bytes, 8);
  bytes += header + tensors;
  if (random.below(4) == 0) bytes.resize(8 + header.size() + static_cast<std::size_t>(random.below(128)));
  bytes.resize(std::min(bytes.size(), max_size));
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
