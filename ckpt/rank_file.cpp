#include "ckpt/rank_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "ckpt/hdf5.h"
#include "core/base/error.h"
#include "core/base/file_io.h"

namespace zero1::ckpt {

static_assert(std::endian::native == std::endian::little, "slices are written as they lie in memory");

RawFile::RawFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0) fail("open");
}

RawFile::~RawFile() {
  if (fd_ >= 0) ::close(fd_);
}

void RawFile::fail(const char* call) const {
  throw Error(fmt::format("{}: cannot be written ({}): {}", path_, call, std::strerror(errno)));
}

std::int64_t RawFile::size_bytes() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("fstat");
  return status.st_size;
}

void RawFile::write_at(std::int64_t offset, const void* from, std::int64_t bytes) {
  if (!write_whole(fd_, from, bytes, offset)) fail("pwrite");
  constexpr std::int64_t worthwhile_bytes = 8 << 20;
  const std::int64_t end = offset + bytes;
  if (end - on_its_way_ < worthwhile_bytes) return;
  // Begins only, and promises nothing: that is what flush_to_disk is for.
  ::sync_file_range(fd_, on_its_way_, end - on_its_way_, SYNC_FILE_RANGE_WRITE);
  on_its_way_ = end;
}

void RawFile::read_at(std::int64_t offset, void* to, std::int64_t bytes) const {
  const std::int64_t got = read_whole(fd_, to, bytes, offset);
  if (got >= 0 && got < bytes) errno = ENODATA;
  if (got < bytes) fail("pread");
}

void RawFile::flush_to_disk() {
  if (::fsync(fd_) != 0) fail("fsync");
}

RankFileWriter::RankFileWriter(const std::string& folder, const Layout& layout, int rank, std::int64_t step)
    : path_(folder + "/" + rank_file_name(rank)), slices_(slices_of_rank(layout, rank)) {
  create(layout, rank, step);
  file_ = std::make_unique<RawFile>(path_);
  skip_complete_slices();
}

void RankFileWriter::create_slices(std::int64_t file, const Layout& layout, int rank) {
  std::size_t next = 0;
  const Handle buffers = create_group(file, "buffers", path_);
  for (std::size_t b = 0; b < layout.buffers.size(); ++b) {
    if (rank >= layout.buffers[b].dp_size) continue;
    const Handle buffer = create_group(buffers.get(), std::to_string(b), path_);
    const Handle buckets = create_group(buffer.get(), "buckets", path_);
    for (std::size_t k = 0; k < layout.buffers[b].buckets.size(); ++k) {
      const Handle bucket = create_group(buckets.get(), std::to_string(k), path_);
      for (const State state : all_states) {
        SliceRecord& slice = slices_[next++];
        slice.offset_bytes = create_float_array(bucket.get(), std::string(name(state)), {slice.elems}, path_);
      }
    }
  }
}

void RankFileWriter::create(const Layout& layout, int rank, std::int64_t step) {
  const Hdf5Lock lock;
  Handle file = create_file(path_);
  write_attribute(file.get(), "format", "zero1-lab rank file", path_);
  write_attribute(file.get(), "version", format_version, path_);
  write_attribute(file.get(), "rank", rank, path_);
  write_attribute(file.get(), "step", step, path_);
  create_slices(file.get(), layout, rank);
  file.close(path_, "H5Fclose");
}

void RankFileWriter::skip_complete_slices() {
  while (current_ < slices_.size() && written_ == slices_[current_].elems) {
    slices_[current_].digest = hash_.value();
    hash_.reset();
    ++current_;
    written_ = 0;
  }
}

void RankFileWriter::append(const float* values, std::int64_t elems) {
  if (elems == 0) return;
  if (current_ == slices_.size() || written_ + elems > slices_[current_].elems) {
    throw Error(fmt::format("{}: more elements than the layout has", path_));
  }
  file_->write_at(slices_[current_].offset_bytes + written_ * elem_bytes, values, elems * elem_bytes);
  hash_.add(values, elems * elem_bytes);
  written_ += elems;
  skip_complete_slices();
}

RankFileRecord RankFileWriter::finish() {
  if (current_ != slices_.size()) throw Error(fmt::format("{}: not all slices were written", path_));
  RankFileRecord record;
  record.bytes = file_->size_bytes();
  record.frame_digest = frame_digest(
      slices_, record.bytes,
      [&](std::int64_t offset, void* to, std::int64_t bytes) { file_->read_at(offset, to, bytes); });
  file_->flush_to_disk();
  return record;
}

}  // namespace zero1::ckpt
