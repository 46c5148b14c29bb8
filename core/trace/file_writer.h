// Writes a trace file, chunk by chunk.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "core/trace/event.h"
#include "core/trace/format.h"

namespace zero1::trace {

/// Every chunk is handed to the system as a whole when it is written: a killed process loses nothing that
/// came before. A file of that name is replaced, not overwritten, so that who still reads it is unharmed.
class FileWriter {
 public:
  /// Writes the header. Throws InputError when the file cannot be made, Error when it cannot be written.
  FileWriter(std::string path, const RunInfo& info, std::int64_t start_ns);

  /// Writes 1 … max_chunk_events records. Throws Error.
  void write_chunk(std::span<const Event> events, std::int64_t dropped);

  /// Writes the footer and closes. Throws Error.
  void close(std::int64_t dropped);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write(const void* data, std::size_t bytes);
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  format::Footer totals_;
};

}  // namespace zero1::trace
