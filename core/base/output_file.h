// A file that appears whole or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zero1 {

/// Writes to a temporary file beside `path`; `publish` flushes it to disk and renames it, in one step for
/// whoever looks. Without `publish` the temporary file is removed and what lay at `path` stays. Links are
/// followed, and the permissions of an existing file are kept.
class OutputFile {
 public:
  /// Throws InputError when nothing can be created there, or `path` is something other than a regular file.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  const std::string& path() const { return path_; }

  /// Throws Error naming the file and the cause (a full disk).
  void append(std::string_view bytes);
  void write_at(std::int64_t offset, const void* from, std::int64_t bytes);

  /// Throws Error when the disk does not take it; the temporary file goes with this object then.
  void publish();

 private:
  [[noreturn]] void fail(const char* call) const;

  std::string path_;
  std::string temporary_path_;
  std::int64_t appended_ = 0;  ///< where `append` goes on
  int fd_ = -1;
};

}  // namespace zero1
