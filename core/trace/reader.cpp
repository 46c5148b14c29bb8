#include "core/trace/reader.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/trace/format.h"

namespace zero1::trace {

/// Positioned reads rather than a mapping: a file that shrinks meanwhile is an error, not a signal.
class Reader::File {
 public:
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  explicit File(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw InputError(path + ": cannot open the trace file: " + std::strerror(errno));
    struct stat status {};
    const bool known = ::fstat(fd_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      ::close(fd_);
      throw InputError(path + ": a trace is a regular file, and this is not one");
    }
    size_ = status.st_size;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }

  std::int64_t size() const { return size_; }

  void read(std::int64_t offset, void* data, std::size_t bytes) const {
    auto* to = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t got = ::pread(fd_, to, bytes, offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        throw InputError(fmt::format("{}: cannot read at byte {}: {}", path_, offset, std::strerror(errno)));
      if (got == 0) throw InputError(fmt::format("{}: the file became shorter while it was read", path_));
      to += got;
      offset += got;
      bytes -= static_cast<std::size_t>(got);
    }
  }

  template <class T>
  T read(std::int64_t offset) const {
    T value;
    read(offset, &value, sizeof value);
    return value;
  }

 private:
  std::string path_;
  int fd_;
  std::int64_t size_ = 0;
};

namespace {

constexpr auto block = format::block_bytes;

bool valid(const format::ChunkHeader& header) {
  return header.magic == format::chunk_magic && header.checksum == format::header_checksum(header);
}

bool valid(const format::Footer& footer) {
  return footer.magic == format::footer_magic && footer.checksum == format::header_checksum(footer);
}

/// What is wrong with a record; empty: nothing.
std::string defect(const Event& event, int ranks) {
  if (event.end_ns < event.begin_ns)
    return fmt::format("ends at {} ns, before it begins at {} ns", event.end_ns, event.begin_ns);
  constexpr std::int64_t latest_ns = std::int64_t{1} << 61;  // 73 years: differences stay within 63 bits
  if (event.begin_ns < -latest_ns || event.end_ns > latest_ns)
    return fmt::format("lies at {} to {} ns, out of all time", event.begin_ns, event.end_ns);
  if (event.rank < 0 || event.rank >= ranks) return fmt::format("names rank {} of {}", event.rank, ranks);
  if (event.stream > StreamId::host) return fmt::format("names stream {}", static_cast<int>(event.stream));
  return {};
}

}  // namespace

Reader::Reader(std::string path) : path_(std::move(path)), file_(std::make_unique<File>(path_)) {
  read_header();
  scan_chunks();
}

Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

void Reader::fail(std::int64_t offset, const std::string& what) const {
  throw InputError(fmt::format("{}: damaged at byte {}: {}", path_, offset, what));
}

void Reader::read_header() {
  const auto not_ours = [&](const std::string& why) {
    throw InputError(fmt::format("{}: not a trace of `zero1 train --trace`: {}", path_, why));
  };
  if (file_->size() < block)
    not_ours(fmt::format("{} {} too few for a header", counted(file_->size(), "byte"),
                         file_->size() == 1 ? "is" : "are"));
  const auto header = file_->read<format::FileHeader>(0);
  if (header.magic != format::file_magic) not_ours("it does not begin with the trace magic");
  if (header.byte_order != format::byte_order_mark) not_ours("its byte order is not little-endian");
  if (header.version != format_version) {
    throw InputError(fmt::format(
        "{}: trace format version {}; this program reads version {}: use the program that wrote it", path_,
        header.version, format_version));
  }
  if (header.checksum != format::header_checksum(header)) fail(0, "the header's checksum does not match");
  if (header.record_bytes != sizeof(Event))
    fail(0, fmt::format("records of {} bytes, expected {}", header.record_bytes, sizeof(Event)));
  if (header.header_bytes != block)
    fail(0, fmt::format("a header of {} bytes, expected {}", header.header_bytes, block));
  if (header.info_bytes > format::max_info_bytes)
    fail(0, fmt::format("run information of {} bytes, 64 MiB at most", header.info_bytes));
  first_chunk_offset_ = block + static_cast<std::int64_t>(format::padded(header.info_bytes));
  if (first_chunk_offset_ > file_->size()) fail(file_->size(), "the file ends inside the run information");
  std::string json(header.info_bytes, '\0');
  file_->read(block, json.data(), json.size());
  if (format::checksum(json.data(), json.size()) != header.info_checksum)
    fail(block, "the run information's checksum does not match");
  info_ = format::from_json(json, path_);
  start_unix_ns_ = header.start_unix_ns;
}

void Reader::scan_chunks() {
  // A footer at the very end says that the file was closed: then every byte must be right.
  const std::int64_t size = file_->size();
  format::Footer footer;
  bool closed = false;
  if (size - block >= first_chunk_offset_) {
    footer = file_->read<format::Footer>(size - block);
    closed = valid(footer);
  }
  const std::int64_t chunks_end = closed ? size - block : size;
  std::int64_t offset = first_chunk_offset_;
  while (chunks_end - offset >= block) {
    const auto header = file_->read<format::ChunkHeader>(offset);
    if (!valid(header)) break;
    if (header.count < 1 || header.count > format::max_chunk_events)
      fail(offset, fmt::format("a chunk of {} records", header.count));
    if (header.first != static_cast<std::uint64_t>(count_))
      fail(offset, fmt::format("a chunk begins with record {}, expected {}", header.first, count_));
    const auto count = static_cast<std::int64_t>(header.count);
    const std::int64_t next = offset + block + count * static_cast<std::int64_t>(sizeof(Event));
    if (next > chunks_end) break;
    chunks_.push_back({offset, count_, count, header.begin_ns, header.end_ns});
    count_ += count;
    dropped_ = static_cast<std::int64_t>(header.dropped);
    offset = next;
  }
  if (closed) {
    if (offset != chunks_end) fail(offset, "no chunk where one must begin");
    if (footer.records != static_cast<std::uint64_t>(count_) || footer.chunks != chunks_.size()) {
      fail(chunks_end, fmt::format("the footer counts {} records in {} chunks, found {} in {}",
                                   footer.records, footer.chunks, count_, chunks_.size()));
    }
    dropped_ = static_cast<std::int64_t>(footer.dropped);
    return;
  }
  truncated_ = true;
  // A machine that went down may have kept the length of the last chunk and not its bytes.
  if (!chunks_.empty() && !last_chunk_is_whole()) {
    count_ -= chunks_.back().count;
    chunks_.pop_back();
  }
}

bool Reader::last_chunk_is_whole() const {
  std::vector<Event> events;
  try {
    read_chunk(chunks_.size() - 1, events);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

void Reader::read_chunk(std::size_t index, std::vector<Event>& events) const {
  const Chunk& chunk = chunks_.at(index);
  events.resize(static_cast<std::size_t>(chunk.count));
  const auto header = file_->read<format::ChunkHeader>(chunk.offset);
  file_->read(chunk.offset + block, events.data(), events.size() * sizeof(Event));
  if (format::checksum(events.data(), events.size() * sizeof(Event)) != header.payload_checksum) {
    fail(chunk.offset, fmt::format("the checksum of records {} … {} does not match", chunk.first,
                                   chunk.first + chunk.count - 1));
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    const std::string why = defect(events[i], info_.ranks);
    if (why.empty()) continue;
    fail(chunk.offset + block + static_cast<std::int64_t>(i * sizeof(Event)),
         fmt::format("record {} {}", chunk.first + static_cast<std::int64_t>(i), why));
  }
}

void Reader::for_each_chunk(const std::function<void(std::span<const Event>)>& visit) const {
  std::vector<Event> events;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    read_chunk(i, events);
    visit(events);
  }
}

std::vector<Event> Reader::read_all() const {
  std::vector<Event> all;
  all.reserve(static_cast<std::size_t>(count_));
  for_each_chunk([&](std::span<const Event> events) { all.insert(all.end(), events.begin(), events.end()); });
  return all;
}

}  // namespace zero1::trace
