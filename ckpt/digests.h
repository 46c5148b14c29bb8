// The digests of a rank's file: of each slice, and of its frame, which is HDF5's own bytes between them.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "ckpt/format.h"

namespace zero1::ckpt {

/// XXH3-64 of what is fed to it.
class Hash64 {
 public:
  Hash64() : state_(XXH3_createState(), XXH3_freeState) {
    if (!state_) throw std::bad_alloc();
    reset();
  }
  void reset() { XXH3_64bits_reset(state_.get()); }
  void add(const void* bytes, std::int64_t count) {
    XXH3_64bits_update(state_.get(), bytes, static_cast<std::size_t>(count));
  }
  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

/// Reads the slice through `read_at(offset, to, bytes)`, shows it to `visit(values, first, count)` chunk by
/// chunk, and returns the digest of its bytes.
template <class ReadAt, class Visit>
std::uint64_t slice_digest(const SliceRecord& slice, ReadAt&& read_at, Visit&& visit) {
  constexpr std::int64_t chunk_elems = 1 << 16;  // stays in the cache between reading and hashing
  Hash64 hash;
  std::vector<float> chunk(static_cast<std::size_t>(std::min(chunk_elems, slice.elems)));
  for (std::int64_t at = 0; at < slice.elems; at += chunk_elems) {
    const std::int64_t count = std::min(chunk_elems, slice.elems - at);
    read_at(slice.offset_bytes + at * elem_bytes, chunk.data(), count * elem_bytes);
    hash.add(chunk.data(), count * elem_bytes);
    visit(chunk.data(), at, count);
  }
  return hash.value();
}

/// The byte ranges of a file of `file_bytes` that no slice covers, in order. Empty slices have no place.
inline std::vector<Range> frame_ranges(const std::vector<SliceRecord>& slices, std::int64_t file_bytes) {
  std::vector<Range> covered;
  for (const SliceRecord& slice : slices) {
    const std::int64_t bytes = slice.elems * static_cast<std::int64_t>(sizeof(float));
    if (bytes > 0) covered.push_back({slice.offset_bytes, slice.offset_bytes + bytes});
  }
  std::sort(covered.begin(), covered.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  std::vector<Range> frame;
  std::int64_t at = 0;
  for (const Range& range : covered) {
    if (at < range.start) frame.push_back({at, range.start});
    at = std::max(at, range.end);
  }
  if (at < file_bytes) frame.push_back({at, file_bytes});
  return frame;
}

/// XXH3-64 of those bytes. `read_at(offset, to, bytes)` reads the file.
template <class ReadAt>
std::uint64_t frame_digest(const std::vector<SliceRecord>& slices, std::int64_t file_bytes,
                           ReadAt&& read_at) {
  Hash64 hash;
  std::vector<char> chunk;
  constexpr std::int64_t chunk_bytes = 1 << 16;
  for (const Range& range : frame_ranges(slices, file_bytes)) {
    for (std::int64_t at = range.start; at < range.end; at += chunk_bytes) {
      chunk.resize(static_cast<std::size_t>(std::min(chunk_bytes, range.end - at)));
      read_at(at, chunk.data(), static_cast<std::int64_t>(chunk.size()));
      hash.add(chunk.data(), static_cast<std::int64_t>(chunk.size()));
    }
  }
  return hash.value();
}

}  // namespace zero1::ckpt
