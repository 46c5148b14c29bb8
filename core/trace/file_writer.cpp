#include "core/trace/file_writer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"

namespace zero1::trace {

FileWriter::FileWriter(std::string path, const RunInfo& info, std::int64_t start_ns)
    : path_(std::move(path)) {
  const std::string json = format::to_json(info);
  if (json.size() > format::max_info_bytes) throw Error(path_ + ": the run information exceeds 64 MiB");
  format::FileHeader header;
  header.info_bytes = json.size();
  header.start_ns = start_ns;
  header.start_unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  header.info_checksum = format::checksum(json.data(), json.size());
  header.checksum = format::header_checksum(header);

  std::error_code ignored;
  // Whoever reads the older file keeps it. A link stays, and what it names is written: /dev/stdout is one.
  if (std::filesystem::is_regular_file(std::filesystem::symlink_status(path_, ignored)))
    std::filesystem::remove(path_, ignored);
  file_.reset(std::fopen(path_.c_str(), "wb"));
  if (!file_) throw InputError(path_ + ": cannot create the trace file: " + std::strerror(errno));
  write(&header, sizeof header);
  write(json.data(), json.size());
  const std::array<char, format::block_bytes> zeros{};
  write(zeros.data(), format::padded(json.size()) - json.size());
  flush();
}

void FileWriter::write_chunk(std::span<const Event> events, std::int64_t dropped) {
  format::ChunkHeader header;
  header.first = totals_.records;
  header.count = events.size();
  header.dropped = static_cast<std::uint64_t>(dropped);
  header.begin_ns = events.front().begin_ns;
  header.end_ns = events.front().end_ns;
  for (const Event& event : events) {
    header.begin_ns = std::min(header.begin_ns, event.begin_ns);
    header.end_ns = std::max(header.end_ns, event.end_ns);
  }
  header.payload_checksum = format::checksum(events.data(), events.size_bytes());
  header.checksum = format::header_checksum(header);
  write(&header, sizeof header);
  write(events.data(), events.size_bytes());
  flush();

  totals_.begin_ns = totals_.chunks == 0 ? header.begin_ns : std::min(totals_.begin_ns, header.begin_ns);
  totals_.end_ns = totals_.chunks == 0 ? header.end_ns : std::max(totals_.end_ns, header.end_ns);
  totals_.records += header.count;
  ++totals_.chunks;
}

void FileWriter::close(std::int64_t dropped) {
  totals_.dropped = static_cast<std::uint64_t>(dropped);
  totals_.checksum = format::header_checksum(totals_);
  write(&totals_, sizeof totals_);
  if (std::fclose(file_.release()) != 0) fail("cannot finish the trace file");
}

void FileWriter::write(const void* data, std::size_t bytes) {
  if (bytes != 0 && std::fwrite(data, 1, bytes, file_.get()) != bytes) fail("cannot write the trace file");
}

void FileWriter::flush() {
  if (std::fflush(file_.get()) != 0) fail("cannot write the trace file");
}

void FileWriter::fail(const char* what) const {
  throw Error(path_ + ": " + what + ": " + std::strerror(errno));
}

}  // namespace zero1::trace
