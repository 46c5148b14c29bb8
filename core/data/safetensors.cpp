#include "core/data/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/data/input_file.h"
#include "core/data/narrowing.h"
#include "core/data/safetensors_header.h"

namespace zero1 {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");
constexpr std::int64_t length_field_bytes = 8;

/// Elements that are converted at a time: the buffer stays in the cache.
constexpr std::int64_t chunk_elems = 16 << 10;

std::string read_header_text(const InputFile& file) {
  const std::int64_t rest = file.size_bytes() - length_field_bytes;
  if (rest < 0) {
    throw InputError(fmt::format("{}: has {}, a safetensors file has at least {}", file.path(),
                                 counted(file.size_bytes(), "byte"), length_field_bytes));
  }
  std::uint64_t length = 0;
  file.read_at(0, &length, length_field_bytes);
  if (length > static_cast<std::uint64_t>(max_safetensors_header_bytes)) {
    throw InputError(
        fmt::format("{}: not a safetensors file: its header claims {} bytes, the format allows {}",
                    file.path(), length, max_safetensors_header_bytes));
  }
  if (static_cast<std::int64_t>(length) > rest) {
    throw InputError(fmt::format("{}: its header claims {}, but only {} follow: the file is truncated",
                                 file.path(), counted(length, "byte"), format_count(rest)));
  }
  std::string text(length, '\0');
  file.read_at(length_field_bytes, text.data(), static_cast<std::int64_t>(length));
  return text;
}

}  // namespace

// ---- reader ----

struct SafetensorsReader::Impl {
  explicit Impl(const std::string& path) : file(path) {
    const std::string text = read_header_text(file);
    data_start = length_field_bytes + static_cast<std::int64_t>(text.size());
    header = parse_safetensors_header(text, file.size_bytes() - data_start, path);
    for (const SafetensorsEntry& entry : header.entries) by_name.emplace(entry.name, &entry);
  }

  InputFile file;
  std::int64_t data_start = 0;
  SafetensorsHeader header;
  std::unordered_map<std::string_view, const SafetensorsEntry*> by_name;
};

SafetensorsReader::SafetensorsReader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
SafetensorsReader::~SafetensorsReader() = default;

const std::vector<SafetensorsEntry>& SafetensorsReader::entries() const {
  return impl_->header.entries;
}
const std::map<std::string, std::string>& SafetensorsReader::metadata() const {
  return impl_->header.metadata;
}

const SafetensorsEntry* SafetensorsReader::find(std::string_view name) const {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : found->second;
}

std::vector<float> SafetensorsReader::read_fp32(const SafetensorsEntry& entry, Range elems) const {
  const SafetensorsEntry* own = find(entry.name);
  if (own == nullptr || own->bytes != entry.bytes || own->dtype != entry.dtype) {
    throw std::invalid_argument(
        fmt::format("tensor {} is not one of {}", in_quotes(entry.name), impl_->file.path()));
  }
  if (!own->foreign_dtype.empty()) {
    throw InputError(fmt::format("{}: tensor {} is {}; only F32, BF16, F16 and F64 can be read",
                                 impl_->file.path(), in_quotes(entry.name), own->foreign_dtype));
  }
  if (elems.start < 0 || elems.end < elems.start || elems.end > own->numel()) {
    throw std::out_of_range(fmt::format("elements [{}, {}) of tensor {}, which has {}", elems.start,
                                        elems.end, in_quotes(entry.name), own->numel()));
  }
  std::vector<float> values(static_cast<std::size_t>(elems.size()));
  const std::int64_t offset = impl_->data_start + own->bytes.start + elems.start * size_bytes(own->dtype);
  visit_dtype(own->dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<T, float>) {
      impl_->file.read_at(offset, values.data(), elems.size() * 4);
    } else {
      std::vector<T> stored(static_cast<std::size_t>(std::min(elems.size(), chunk_elems)));
      for (std::int64_t done = 0; done < elems.size(); done += chunk_elems) {
        const std::int64_t count = std::min(chunk_elems, elems.size() - done);
        constexpr auto elem_bytes = static_cast<std::int64_t>(sizeof(T));
        impl_->file.read_at(offset + done * elem_bytes, stored.data(), count * elem_bytes);
        if constexpr (std::is_same_v<T, double>) {
          const auto beyond = std::find_if(stored.begin(), stored.begin() + count, overflows_fp32);
          if (beyond != stored.begin() + count) {
            throw InputError(fmt::format("{}: tensor {}[{}] {}", impl_->file.path(), in_quotes(entry.name),
                                         elems.start + done + (beyond - stored.begin()),
                                         describe_overflow(*beyond, DType::fp32)));
          }
        }
        std::transform(stored.begin(), stored.begin() + count, values.begin() + done,
                       [](T value) { return static_cast<float>(value); });
      }
    }
  });
  return values;
}

// ---- writer ----

struct SafetensorsWriter::Impl {
  Impl(const std::string& path, std::vector<SafetensorsEntry> all,
       std::map<std::string, std::string> metadata)
      : entries(std::move(all)), written(entries.size()), file(path) {
    const std::string text = encode_safetensors_header({lay_out(path), std::move(metadata)}, path);
    data_start = length_field_bytes + static_cast<std::int64_t>(text.size());
    const auto length = static_cast<std::uint64_t>(text.size());
    file.write_at(0, &length, length_field_bytes);
    file.write_at(length_field_bytes, text.data(), static_cast<std::int64_t>(text.size()));
  }

  /// Gives every entry its bytes; returns the entries in the order of their data.
  std::vector<SafetensorsEntry> lay_out(const std::string& path) {
    std::vector<SafetensorsEntry*> order;
    std::unordered_map<std::string_view, int> seen;
    for (SafetensorsEntry& entry : entries) {
      if (entry.name == "__metadata__" || seen[entry.name]++ > 0) {
        throw InputError(fmt::format("{}: tensor {} is given twice, or its name is reserved", path,
                                     in_quotes(entry.name)));
      }
      if (!entry.foreign_dtype.empty()) {
        throw InputError(fmt::format("{}: tensor {}: {} cannot be written", path, in_quotes(entry.name),
                                     entry.foreign_dtype));
      }
      order.push_back(&entry);
    }
    std::stable_sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
      return size_bytes(a->dtype) > size_bytes(b->dtype);
    });
    std::vector<SafetensorsEntry> in_order;
    std::int64_t start = 0;
    for (SafetensorsEntry* entry : order) {
      std::int64_t bytes = 0;
      std::int64_t end = 0;
      if (__builtin_mul_overflow(entry->numel(), size_bytes(entry->dtype), &bytes) ||
          __builtin_add_overflow(start, bytes, &end)) {
        throw InputError(fmt::format("{}: tensor {}: its size overflows", path, in_quotes(entry->name)));
      }
      entry->bytes = {start, end};
      start = end;
      in_order.push_back(*entry);
    }
    return in_order;
  }

  void check_complete() {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      auto& ranges = written[i];
      std::sort(ranges.begin(), ranges.end(),
                [](const Range& a, const Range& b) { return a.start < b.start; });
      std::int64_t covered = 0;
      auto range = ranges.begin();
      while (range != ranges.end() && range->start == covered) covered = (range++)->end;
      if (range != ranges.end() || covered != entries[i].numel()) {
        throw Error(fmt::format("{}: tensor {}: element {} of {} was not written exactly once", file.path(),
                                in_quotes(entries[i].name), covered, entries[i].numel()));
      }
    }
  }

  std::vector<SafetensorsEntry> entries;    ///< as given
  std::vector<std::vector<Range>> written;  ///< per entry, the ranges of elements that arrived
  OutputFile file;
  std::int64_t data_start = 0;
};

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<SafetensorsEntry> entries,
                                     std::map<std::string, std::string> metadata)
    : impl_(std::make_unique<Impl>(path, std::move(entries), std::move(metadata))) {}
SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write_fp32(std::size_t entry, std::int64_t elem_offset, const float* values,
                                   std::int64_t numel) {
  const SafetensorsEntry& target = impl_->entries.at(entry);
  if (elem_offset < 0 || numel < 0 || elem_offset > target.numel() - numel) {
    throw std::out_of_range(fmt::format("elements [{}, {} + {}) of tensor {}, which has {}", elem_offset,
                                        elem_offset, numel, in_quotes(target.name), target.numel()));
  }
  if (numel == 0) return;
  auto& ranges = impl_->written[entry];
  if (!ranges.empty() && ranges.back().end == elem_offset)
    ranges.back().end += numel;
  else
    ranges.push_back({elem_offset, elem_offset + numel});

  if (const auto beyond = first_overflow(values, numel, target.dtype)) {
    throw InputError(fmt::format("{}: tensor {}[{}] {}; float32 holds it", impl_->file.path(),
                                 in_quotes(target.name), elem_offset + *beyond,
                                 describe_overflow(values[*beyond], target.dtype)));
  }
  const std::int64_t offset = impl_->data_start + target.bytes.start + elem_offset * size_bytes(target.dtype);
  visit_dtype(target.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (std::is_same_v<T, float>) {
      impl_->file.write_at(offset, values, numel * 4);
    } else {
      std::vector<T> stored(static_cast<std::size_t>(std::min(numel, chunk_elems)));
      for (std::int64_t done = 0; done < numel; done += chunk_elems) {
        const std::int64_t count = std::min(chunk_elems, numel - done);
        constexpr auto elem_bytes = static_cast<std::int64_t>(sizeof(T));
        std::transform(values + done, values + done + count, stored.begin(),
                       [](float value) { return T(value); });
        impl_->file.write_at(offset + done * elem_bytes, stored.data(), count * elem_bytes);
      }
    }
  });
}

void SafetensorsWriter::close() {
  impl_->check_complete();
  impl_->file.publish();
}

}  // namespace zero1
