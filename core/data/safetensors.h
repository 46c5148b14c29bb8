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
  Range bytes = {};  ///< in the data section; the writer chooses it
  /// Empty, or the stored type when it is none of F32, BF16, F16, F64 ("I64", "BOOL"): such a tensor is
  /// listed, so that files that hold a few open, but it can neither be read nor written.
  std::string foreign_dtype = {};

  std::int64_t numel() const;  ///< throws InputError when a size is negative or the product overflows
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

  const std::vector<SafetensorsEntry>& entries() const;  ///< in the order of their data
  const SafetensorsEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const;

  /// Elements [range) of one of this file's tensors as fp32 (F64 is rounded). Reads just these, from any
  /// number of threads at once. Throws InputError for a foreign dtype, and for F64 beyond fp32's range.
  std::vector<float> read_fp32(const SafetensorsEntry& entry, Range elems) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes tensors piece by piece; the header is known beforehand. The file appears under its name only
/// when `close` has succeeded; until then what lay there stays. The data lie in order of descending
/// element size, otherwise as given, behind a header padded to 8 bytes: every tensor is aligned. One
/// thread at a time.
class SafetensorsWriter {
 public:
  /// Throws InputError when the file cannot be created there, or entries are not fit to be written (a
  /// name twice, a foreign dtype, sizes that overflow).
  SafetensorsWriter(const std::string& path, std::vector<SafetensorsEntry> entries,
                    std::map<std::string, std::string> metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();  ///< without close: removes what was written

  /// `numel` elements of tensor number `entry` from `elem_offset` on, rounded to its dtype to nearest
  /// even; any order of tensors and ranges. Throws Error when the disk does not take them, InputError naming
  /// the element where rounding would make an infinity of a finite value.
  void write_fp32(std::size_t entry, std::int64_t elem_offset, const float* values, std::int64_t numel);
  /// Flushes to disk and publishes. Throws Error when an element was never written, or written twice.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zero1
