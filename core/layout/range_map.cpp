#include "core/layout/range_map.h"

#include <algorithm>
#include <numeric>

namespace zero1 {
namespace {

/// Appends what `rank` owns of one bucket. `first` is the position of the first parameter that may overlap
/// the rank's shard, and moves on to the first that may overlap the next rank's.
void append_bucket_rows(const Layout& layout, const BufferLayout& buffer, int bucket, int rank,
                        std::size_t& first, std::vector<ParamShard>& rows) {
  const BucketLayout& layout_of_bucket = at(buffer.buckets, bucket);
  const std::int64_t bucket_start = layout_of_bucket.world.start;
  const Range shard_world = buffer.shard_in_bucket(bucket, rank).shifted(bucket_start);
  const std::vector<int>& params = layout_of_bucket.params;
  for (; first < params.size(); ++first) {
    const int param = params[first];
    const Range param_world = at(layout.locations, param).world;
    if (param_world.start >= shard_world.end) return;
    const Range world = intersect(param_world, shard_world);
    if (!world.empty()) {
      rows.push_back({bucket, param, world, world.shifted(-bucket_start), world.shifted(-shard_world.start),
                      world.shifted(-param_world.start)});
    }
    if (param_world.end > shard_world.end) return;  // the next rank owns more of this one
  }
}

}  // namespace

ParamShard param_shard(const Layout& layout, int param, int rank) {
  const ParamLocation& location = at(layout.locations, param);
  const BufferLayout& buffer = at(layout.buffers, location.buffer);
  const std::int64_t bucket_start = at(buffer.buckets, location.bucket).world.start;
  const Range shard_world = buffer.shard_in_bucket(location.bucket, rank).shifted(bucket_start);
  const Range world = intersect(location.world, shard_world);
  if (world.empty()) return {location.bucket, param, {}, {}, {}, {}};
  return {location.bucket,
          param,
          world,
          world.shifted(-bucket_start),
          world.shifted(-shard_world.start),
          world.shifted(-location.world.start)};
}

RangeMap build_range_map(const Layout& layout, int buffer) {
  const BufferLayout& table = at(layout.buffers, buffer);
  // A parameter has one row, and one more for every shard boundary inside it.
  std::size_t row_bound = 0;
  for (const BucketLayout& bucket : table.buckets) {
    row_bound += bucket.params.size() + std::min<std::int64_t>(table.dp_size, bucket.world.size());
  }
  std::vector<ParamShard> rows;
  rows.reserve(row_bound);
  std::vector<std::size_t> rank_offsets{0};
  rank_offsets.reserve(table.dp_size + 1);
  std::vector<std::size_t> first_param(table.buckets.size(), 0);
  for (int rank = 0; rank < table.dp_size; ++rank) {
    for (std::size_t bucket = 0; bucket < table.buckets.size(); ++bucket) {
      append_bucket_rows(layout, table, static_cast<int>(bucket), rank, first_param[bucket], rows);
    }
    rank_offsets.push_back(rows.size());
  }
  return {std::move(rows), std::move(rank_offsets)};
}

RangeMapWalker::RangeMapWalker(const Layout& layout, int buffer, int first_rank)
    : layout_(layout),
      buffer_(at(layout.buffers, buffer)),
      rank_(first_rank),
      first_param_(buffer_.buckets.size(), 0) {}

std::span<const ParamShard> RangeMapWalker::next() {
  rows_.clear();
  for (std::size_t bucket = 0; bucket < buffer_.buckets.size(); ++bucket) {
    append_bucket_rows(layout_, buffer_, static_cast<int>(bucket), rank_, first_param_[bucket], rows_);
  }
  ++rank_;
  return rows_;
}

}  // namespace zero1
