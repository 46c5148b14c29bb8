// A file that is read piece by piece, never as a whole.
#pragma once

#include <cstdint>
#include <string>

namespace zero1 {

/// A regular file, opened for reading at any offset, by any number of threads at once. The content must
/// not change while it is open; a file that shrinks is an error, not a crash.
class InputFile {
 public:
  /// Throws InputError that names the file and why it cannot be read (missing, folder, pipe, no permission).
  explicit InputFile(const std::string& path);
  /// The file `name` of an opened folder, whatever the folder is called by now. A symbolic link is refused.
  /// `folder_path` is for messages and path().
  static InputFile in_folder(int folder_fd, const std::string& folder_path, const std::string& name);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  std::int64_t size_bytes() const { return size_bytes_; }

  /// Exactly `bytes` bytes from `offset` on. Throws InputError when the file no longer holds them.
  void read_at(std::int64_t offset, void* to, std::int64_t bytes) const;

 private:
  InputFile(std::string path, int fd);  ///< takes the descriptor; -1: errno says why

  std::string path_;
  int fd_ = -1;
  std::int64_t size_bytes_ = 0;
};

}  // namespace zero1
