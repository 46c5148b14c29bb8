// Reads trace files, chunk by chunk, in any order of chunks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/trace/event.h"
#include "core/trace/recorder.h"

namespace zero1::trace {

/// A trace file. Opening it validates the header and every chunk's header, and finds where the file ends;
/// records are validated when their chunk is read. Memory: 40 bytes per chunk and what the caller asks for.
///
/// A file that was not closed (the process was killed, or runs still) is `truncated`: it is usable up to
/// its last whole chunk. Anything else that is not as it should be is an InputError that names file, place,
/// what was expected and what was found.
class Reader {
 public:
  struct Chunk {
    std::int64_t offset = 0;  ///< of its header in the file
    std::int64_t first = 0;   ///< number of its first record
    std::int64_t count = 0;
    std::int64_t begin_ns = 0;  ///< least begin and greatest end of its records
    std::int64_t end_ns = 0;
  };

  explicit Reader(std::string path);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const std::string& path() const { return path_; }
  const RunInfo& info() const { return info_; }
  std::int64_t start_unix_ns() const { return start_unix_ns_; }  ///< wall clock when event times were 0
  std::int64_t count() const { return count_; }                  ///< records that can be read
  std::int64_t dropped() const { return dropped_; }              ///< events that the recorder lost
  bool truncated() const { return truncated_; }
  std::span<const Chunk> chunks() const { return chunks_; }

  /// Replaces `events` with the records of one chunk (16,384 at most), validated: checksum, times, rank,
  /// stream. Kinds that a later version has appended are let through.
  void read_chunk(std::size_t index, std::vector<Event>& events) const;

  /// All records, one chunk after the other: in order within one (rank, stream) by their time of recording.
  void for_each_chunk(const std::function<void(std::span<const Event>)>& visit) const;

  /// All records in one vector of 64 bytes each.
  std::vector<Event> read_all() const;

 private:
  class File;
  void read_header();
  void scan_chunks();
  bool last_chunk_is_whole() const;
  [[noreturn]] void fail(std::int64_t offset, const std::string& what) const;

  std::string path_;
  std::unique_ptr<File> file_;
  RunInfo info_;
  std::int64_t start_unix_ns_ = 0;
  std::int64_t first_chunk_offset_ = 0;
  std::int64_t count_ = 0;
  std::int64_t dropped_ = 0;
  bool truncated_ = false;
  std::vector<Chunk> chunks_;
};

}  // namespace zero1::trace
