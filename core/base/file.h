// Files read and written whole.
#pragma once

#include <string>
#include <string_view>

namespace zero1 {

/// The whole file as bytes; "-" is the standard input. Throws InputError naming the file and the reason.
std::string read_file(const std::string& path);

/// Writes `contents` to a temporary file beside `path`, flushes it to disk and renames it: readers see
/// the old file or the new one, whole. Links are followed, permissions of an existing file are kept, and
/// what is no regular file (a pipe, /dev/null) is written directly. Throws Error naming the file.
void write_file(const std::string& path, std::string_view contents);

}  // namespace zero1
