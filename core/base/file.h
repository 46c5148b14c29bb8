// Files read and written whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace zero1 {

/// No file that is read whole is larger; what is (/dev/zero has no end) would only eat up the memory.
inline constexpr std::size_t max_whole_file_bytes = std::size_t{1} << 30;

/// The whole file as bytes; "-" is the standard input. Throws InputError naming the file and the reason, also
/// beyond max_whole_file_bytes, and for a named pipe, which may never be written to. The shell's pipes
/// (/dev/stdin, /dev/fd/63) are read.
std::string read_file(const std::string& path);

/// Writes `contents` whole or not at all, as OutputFile does; what is no regular file (a pipe, /dev/null)
/// is written directly. Throws Error naming the file; InputError where it is a folder or cannot be made.
void write_file(const std::string& path, std::string_view contents);

/// Whether writing to one would change the other: both name one file, there or yet to be made. Devices and
/// pipes are not meant: /dev/null may be named many times.
bool same_file(const std::string& a, const std::string& b);

}  // namespace zero1
