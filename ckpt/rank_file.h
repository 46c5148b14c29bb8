// Writes one rank's file: this rank's shards in bucket space.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/digests.h"

namespace zero1::ckpt {

/// A descriptor that is written at offsets and closed with its owner. Who writes from front to back has the
/// disk at work meanwhile; otherwise it would begin with the flush.
class RawFile {
 public:
  explicit RawFile(std::string path);  ///< an existing file, for reading and writing
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile();

  std::int64_t size_bytes() const;
  void write_at(std::int64_t offset, const void* from, std::int64_t bytes);
  void read_at(std::int64_t offset, void* to, std::int64_t bytes) const;
  void flush_to_disk();

 private:
  [[noreturn]] void fail(const char* call) const;

  std::string path_;
  int fd_ = -1;
  std::int64_t on_its_way_ = 0;  ///< before this offset the disk has been told to begin
};

/// HDF5 lays the file out; the elements are then written past it. Slices are written in the order of
/// slices_of_rank, each from its first element to its last. Any number of writers may work side by side.
/// Throws Error naming the file; the file is then of no use.
class RankFileWriter {
 public:
  RankFileWriter(const std::string& folder, const Layout& layout, int rank, std::int64_t step);

  /// The slices to be written, in order.
  const std::vector<SliceRecord>& slices() const { return slices_; }

  /// The next `elems` elements of the current slice; never beyond its end.
  void append(const float* values, std::int64_t elems);

  /// All slices have been written: flushes to disk and completes slices() with offsets and digests.
  RankFileRecord finish();

 private:
  void create(const Layout& layout, int rank, std::int64_t step);
  void create_slices(std::int64_t file, const Layout& layout, int rank);  ///< an HDF5 identifier
  void skip_complete_slices();

  std::string path_;
  std::vector<SliceRecord> slices_;
  std::unique_ptr<RawFile> file_;
  std::size_t current_ = 0;   ///< index of the slice being written
  std::int64_t written_ = 0;  ///< elements of it
  Hash64 hash_;
};

}  // namespace zero1::ckpt
