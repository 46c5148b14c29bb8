// The bytes of a trace file. docs/trace_format.md says the same for readers in other languages.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/trace/event.h"
#include "core/trace/recorder.h"

namespace zero1::trace::format {

// Everything is a multiple of this, so that every record of a mapped file lies aligned.
inline constexpr std::int64_t block_bytes = 64;

// As in PNG: the first byte is no text, and line ends and the DOS end-of-file tell of a text-mode copy.
inline constexpr std::array<char, 8> file_magic{'\x89', 'Z', '1', 'T', '\r', '\n', '\x1a', '\n'};
inline constexpr std::array<char, 8> chunk_magic{'Z', '1', 'C', 'H', 'U', 'N', 'K', '\0'};
inline constexpr std::array<char, 8> footer_magic{'Z', '1', 'F', 'O', 'O', 'T', 'E', 'R'};
inline constexpr std::uint32_t byte_order_mark = 0x01020304;

// Bounds that a reader relies on before it allocates.
inline constexpr std::uint64_t max_chunk_events = 16384;
inline constexpr std::uint64_t max_info_bytes = 64 << 20;
inline constexpr int max_ranks = 32767;

struct FileHeader {
  std::array<char, 8> magic = file_magic;
  std::uint32_t version = format_version;
  std::uint32_t byte_order = byte_order_mark;
  std::uint32_t record_bytes = sizeof(Event);
  std::uint32_t header_bytes = block_bytes;
  std::uint64_t info_bytes = 0;     ///< of the JSON text that follows, zero-padded to whole blocks
  std::int64_t start_ns = 0;        ///< the run's clock when event times were 0
  std::int64_t start_unix_ns = 0;   ///< the wall clock then
  std::uint64_t info_checksum = 0;  ///< XXH3-64 of the JSON text
  std::uint64_t checksum = 0;       ///< XXH3-64 of the bytes before
};

struct ChunkHeader {
  std::array<char, 8> magic = chunk_magic;
  std::uint64_t first = 0;    ///< number of records in the chunks before
  std::uint64_t count = 0;    ///< records that follow, 1 … max_chunk_events
  std::uint64_t dropped = 0;  ///< events lost so far
  std::int64_t begin_ns = 0;  ///< least begin_ns of the records
  std::int64_t end_ns = 0;    ///< greatest end_ns of the records
  std::uint64_t payload_checksum = 0;
  std::uint64_t checksum = 0;
};

struct Footer {
  std::array<char, 8> magic = footer_magic;
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  std::uint64_t chunks = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t reserved = 0;
  std::uint64_t checksum = 0;
};

static_assert(sizeof(FileHeader) == block_bytes);
static_assert(sizeof(ChunkHeader) == block_bytes);
static_assert(sizeof(Footer) == block_bytes);

std::uint64_t checksum(const void* data, std::size_t bytes);

/// Over everything of a header but the checksum itself, which is its last field.
template <class Header>
std::uint64_t header_checksum(const Header& header) {
  return checksum(&header, sizeof(Header) - sizeof(std::uint64_t));
}

constexpr std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

/// RunInfo as the JSON text of the file and back. `from_json` throws InputError naming the field;
/// `path` is for its message.
std::string to_json(const RunInfo& info);
RunInfo from_json(std::string_view text, const std::string& path);

}  // namespace zero1::trace::format
