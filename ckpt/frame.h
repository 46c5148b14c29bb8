// What a rank's file holds beside its slices: HDF5's own bytes.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ckpt/format.h"

namespace zero1::ckpt {

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
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                             XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  std::vector<char> chunk;
  constexpr std::int64_t chunk_bytes = 1 << 16;
  for (const Range& range : frame_ranges(slices, file_bytes)) {
    for (std::int64_t at = range.start; at < range.end; at += chunk_bytes) {
      chunk.resize(static_cast<std::size_t>(std::min(chunk_bytes, range.end - at)));
      read_at(at, chunk.data(), static_cast<std::int64_t>(chunk.size()));
      XXH3_64bits_update(hash.get(), chunk.data(), chunk.size());
    }
  }
  return XXH3_64bits_digest(hash.get());
}

}  // namespace zero1::ckpt
