#include "core/data/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/strict_json.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace zero1 {
namespace {

using nlohmann::json;

/// The format's dtypes. Those without an element type of ours can be listed, not read.
struct StoredDType {
  std::string_view name;
  std::int64_t bits;
  std::optional<DType> dtype;
};

constexpr std::array<StoredDType, 20> stored_dtypes = {{
    {"F32", 32, DType::fp32},
    {"BF16", 16, DType::bf16},
    {"F16", 16, DType::fp16},
    {"F64", 64, DType::fp64},
    {"BOOL", 8, {}},
    {"U8", 8, {}},
    {"I8", 8, {}},
    {"U16", 16, {}},
    {"I16", 16, {}},
    {"U32", 32, {}},
    {"I32", 32, {}},
    {"U64", 64, {}},
    {"I64", 64, {}},
    {"C64", 64, {}},
    {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"F4", 4, {}},
}};

const StoredDType* find_stored_dtype(std::string_view name) {
  const auto* found = std::find_if(stored_dtypes.begin(), stored_dtypes.end(),
                                   [&](const StoredDType& d) { return d.name == name; });
  return found == stored_dtypes.end() ? nullptr : found;
}

std::string_view stored_name(DType dtype) {
  return std::find_if(stored_dtypes.begin(), stored_dtypes.end(),
                      [&](const StoredDType& d) { return d.dtype == dtype; })
      ->name;
}

/// The product, or nothing when it overflows.
std::optional<std::int64_t> product(const std::vector<std::int64_t>& sizes) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(result, size, &result)) return std::nullopt;
  }
  return result;
}

class HeaderParser {
 public:
  HeaderParser(std::int64_t data_bytes, const std::string& path) : data_bytes_(data_bytes), path_(path) {}

  SafetensorsHeader parse(const std::string& text) {
    // The format asks for the brace, and it keeps out a byte-order mark, which the JSON parser skips.
    if (text.empty() || text.front() != '{')
      fail("its header does not begin with '{': not a safetensors file");
    const json root = parse_json(text);
    SafetensorsHeader header;
    for (const auto& [name, value] : root.items()) {
      if (name == "__metadata__")
        header.metadata = parse_metadata(value);
      else
        header.entries.push_back(parse_entry(name, value));
    }
    check_tiling(header.entries);
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw InputError(fmt::format("{}: {}", path_, why));
  }
  [[noreturn]] void fail(const std::string& tensor, const std::string& why) const {
    fail(fmt::format("tensor {}: {}", in_quotes(tensor), why));
  }

  json parse_json(const std::string& text) const {
    constexpr int max_depth = 3;  // header { tensor { shape [
    try {
      return parse_strict_json(text, max_depth);
    } catch (const InputError& error) {
      fail(fmt::format("its header: {}", error.what()));
    }
  }

  std::map<std::string, std::string> parse_metadata(const json& value) const {
    if (!value.is_object()) fail("__metadata__ is not an object");
    std::map<std::string, std::string> metadata;
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        fail(fmt::format("__metadata__: the value of {} is not a string", in_quotes(key)));
      metadata.emplace(key, text.get<std::string>());
    }
    return metadata;
  }

  const json& field(const std::string& tensor, const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) fail(tensor, fmt::format("has no \"{}\"", key));
    return *found;
  }

  std::vector<std::int64_t> sizes(const std::string& tensor, const json& value, const char* key) const {
    const json& list = field(tensor, value, key);
    if (!list.is_array()) fail(tensor, fmt::format("\"{}\" is not a list", key));
    std::vector<std::int64_t> result;
    for (const json& item : list) {
      const bool too_large =
          item.is_number_unsigned() && item.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
      if (!item.is_number_integer() || too_large || item.get<std::int64_t>() < 0) {
        fail(tensor, fmt::format("\"{}\" holds {}, expected whole numbers from 0 to 2^63 - 1", key,
                                 in_quotes(item.dump())));
      }
      result.push_back(item.get<std::int64_t>());
    }
    return result;
  }

  SafetensorsEntry parse_entry(const std::string& name, const json& value) const {
    if (!value.is_object()) fail(name, "is not described by an object");
    SafetensorsEntry entry;
    entry.name = name;

    const json& dtype_field = field(name, value, "dtype");
    if (!dtype_field.is_string()) fail(name, "\"dtype\" is not a string");
    const auto& dtype_name = dtype_field.get_ref<const std::string&>();
    const StoredDType* stored = find_stored_dtype(dtype_name);
    if (stored == nullptr) fail(name, fmt::format("unknown dtype {}", in_quotes(dtype_name)));
    if (stored->dtype)
      entry.dtype = *stored->dtype;
    else
      entry.foreign_dtype = dtype_name;

    entry.shape = sizes(name, value, "shape");
    const auto numel = product(entry.shape);
    std::int64_t bits = 0;
    if (!numel || __builtin_mul_overflow(*numel, stored->bits, &bits)) {
      fail(name, fmt::format("the sizes of its shape [{}] overflow", fmt::join(entry.shape, ", ")));
    }

    const auto offsets = sizes(name, value, "data_offsets");
    if (offsets.size() != 2)
      fail(name, fmt::format("\"data_offsets\" holds {}, expected 2", counted(offsets.size(), "number")));
    entry.bytes = {offsets[0], offsets[1]};
    if (bits % 8 != 0 || entry.bytes.size() != bits / 8) {
      fail(name, fmt::format("its data_offsets [{}, {}) hold {}, but {} of shape [{}] takes {}", offsets[0],
                             offsets[1], counted(entry.bytes.size(), "byte"), dtype_name,
                             fmt::join(entry.shape, ", "),
                             bits % 8 == 0 ? fmt::format("{}", bits / 8) : fmt::format("{} bits", bits)));
    }
    return entry;
  }

  /// The tensors must tile the data section. Sorts them by where they lie.
  void check_tiling(std::vector<SafetensorsEntry>& entries) const {
    std::stable_sort(entries.begin(), entries.end(),
                     [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                       return std::pair(a.bytes.start, a.bytes.end) < std::pair(b.bytes.start, b.bytes.end);
                     });
    std::int64_t expected_start = 0;
    const SafetensorsEntry* previous = nullptr;
    for (const SafetensorsEntry& entry : entries) {
      if (entry.bytes.start < expected_start) {
        fail(entry.name,
             fmt::format("its data [{}, {}) overlap those of {} [{}, {})", entry.bytes.start, entry.bytes.end,
                         in_quotes(previous->name), previous->bytes.start, previous->bytes.end));
      }
      if (entry.bytes.start > expected_start) {
        fail(entry.name, fmt::format("bytes [{}, {}) before its data belong to no tensor", expected_start,
                                     entry.bytes.start));
      }
      if (entry.bytes.end > data_bytes_) {
        fail(entry.name,
             fmt::format("its data end at byte {} of the data section, which has {}: the file is truncated "
                         "or its header is wrong",
                         entry.bytes.end, data_bytes_));
      }
      expected_start = entry.bytes.end;
      previous = &entry;
    }
    if (expected_start != data_bytes_) {
      fail(fmt::format("its data are {} longer than its tensors take",
                       counted(data_bytes_ - expected_start, "byte")));
    }
  }

  std::int64_t data_bytes_;
  const std::string& path_;
};

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t max_shown = 80;
  return fmt::format("'{}'", printable(text, max_shown));
}

std::int64_t SafetensorsEntry::numel() const {
  const bool negative = std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size < 0; });
  const auto result = product(shape);
  if (negative || !result) {
    throw InputError(fmt::format("tensor {}: shape [{}] is negative or overflows", in_quotes(name),
                                 fmt::join(shape, ", ")));
  }
  return *result;
}

SafetensorsHeader parse_safetensors_header(const std::string& text, std::int64_t data_bytes,
                                           const std::string& path) {
  return HeaderParser(data_bytes, path).parse(text);
}

std::string encode_safetensors_header(const SafetensorsHeader& header, const std::string& path) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) root["__metadata__"] = header.metadata;
  for (const SafetensorsEntry& entry : header.entries) {
    auto& value = root[entry.name];
    value["dtype"] = stored_name(entry.dtype);
    value["shape"] = entry.shape;
    value["data_offsets"] = {entry.bytes.start, entry.bytes.end};
  }
  std::string text;
  try {
    text = root.dump();
  } catch (const json::exception&) {
    throw InputError(fmt::format("{}: a tensor's name or a metadata value is not UTF-8", path));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (static_cast<std::int64_t>(text.size()) > max_safetensors_header_bytes) {
    throw InputError(fmt::format("{}: the header would have {} bytes, the format allows {}", path,
                                 text.size(), max_safetensors_header_bytes));
  }
  return text;
}

}  // namespace zero1
