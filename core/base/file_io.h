// What every owner of a file descriptor does with it: whole transfers, folders on disk.
#pragma once

#include <cstdint>
#include <string>

namespace zero1 {

/// Writes all `bytes` at `offset`, in as many calls as it takes. False: errno says why.
bool write_whole(int fd, const void* from, std::int64_t bytes, std::int64_t offset);

/// Reads `bytes` from `offset` on, fewer where the file ends before. The number read; -1: errno says why.
std::int64_t read_whole(int fd, void* to, std::int64_t bytes, std::int64_t offset);

/// Flushes a folder: what was created in it, renamed or removed is on disk after this. File systems that
/// cannot do that keep the order anyway, so a failure is none.
void flush_folder(const std::string& path);

/// The folder that holds `path`; "." where it names none.
std::string parent_folder(const std::string& path);

}  // namespace zero1
