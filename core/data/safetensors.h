// Reads and writes the safetensors format (8-byte little-endian header length, JSON header, raw data).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/range.h"

namespace zero1 {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::int64_t> shape;
  Range bytes;  ///< in the data section

  std::int64_t numel() const;
};

/// An opened file. The header is validated as a whole before anything is believed: length, JSON, dtypes,
/// sizes, offsets that overlap, leave gaps or pass the end, truncation, names twice. Every fault is an
/// InputError that names file and tensor. Nothing is allocated by what a header claims alone.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;
  ~SafetensorsReader();

  const std::vector<SafetensorsEntry>& entries() const;  ///< in file order
  const SafetensorsEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const;

  /// Elements [range) of a tensor, widened to fp32.
  std::vector<float> read_fp32(const SafetensorsEntry& entry, Range elems) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes tensors one after another; the header is known beforehand. The file appears under its name
/// only when `close` has succeeded.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::string path, std::vector<SafetensorsEntry> entries,
                    std::map<std::string, std::string> metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();  ///< without close: removes what was written

  /// Elements of one tensor, in its dtype (rounded to nearest even), any order of tensors and ranges.
  void write_fp32(std::size_t entry, std::int64_t elem_offset, const float* values, std::int64_t numel);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1
