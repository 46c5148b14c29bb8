// Which ranks own a stretch of a bucket, and what of it is padding; what tables and pictures show.
#pragma once

#include "core/layout/buffer_layout.h"

namespace zero1 {

/// The ranks [start, end) that own at least one element of `in_bucket` (bucket coordinates); empty for an
/// empty range.
inline Range owners_of(const BufferLayout& buffer, int bucket, const Range& in_bucket) {
  if (in_bucket.empty()) return {};
  const std::int64_t shard = buffer.shard_elems(bucket);
  return {in_bucket.start / shard, (in_bucket.end - 1) / shard + 1};
}

/// The ranks that own a part of a parameter.
inline Range owners_of(const Layout& layout, int param) {
  const ParamLocation& location = at(layout.locations, param);
  const BufferLayout& buffer = at(layout.buffers, location.buffer);
  const std::int64_t bucket_start = at(buffer.buckets, location.bucket).world.start;
  return owners_of(buffer, location.bucket, location.world.shifted(-bucket_start));
}

/// The elements of a bucket that belong to no parameter: between parameters and at the end.
inline std::int64_t padding_elems(const Layout& layout, const BucketLayout& bucket) {
  std::int64_t elems = bucket.world.size();
  for (const int param : bucket.params)
    elems -= layout.locations[static_cast<std::size_t>(param)].world.size();
  return elems;
}

}  // namespace zero1
