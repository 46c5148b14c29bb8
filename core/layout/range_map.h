// What each rank owns: for every (rank, bucket, parameter) that overlap, four ranges.
// Megatron: `_build_model_gbuf_range` and `_build_model_gbuf_param_range_map` in distrib_optimizer.py.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/layout/buffer_layout.h"

namespace zero1 {

/// The part of one parameter that one rank owns. All four ranges have the same length.
struct ParamShard {
  int bucket = 0;              ///< within the buffer
  int param = 0;               ///< index into Layout::specs
  Range gbuf_world;            ///< in the whole buffer
  Range gbuf_world_in_bucket;  ///< in the bucket
  Range gbuf_local;            ///< in this rank's shard of the bucket
  Range param_range;           ///< in the parameter itself ("param" in Megatron)

  friend bool operator==(const ParamShard&, const ParamShard&) = default;
};

/// One buffer's shards for all its ranks, in one table: rows of rank r, in bucket order and within a
/// bucket in buffer order.
class RangeMap {
 public:
  RangeMap(std::vector<ParamShard> shards, std::vector<std::size_t> rank_offsets)
      : shards_(std::move(shards)), rank_offsets_(std::move(rank_offsets)) {}

  int rank_count() const { return static_cast<int>(rank_offsets_.size()) - 1; }
  std::span<const ParamShard> rank(int rank) const {
    const std::size_t first = at(rank_offsets_, rank);
    return std::span(shards_).subspan(first, at(rank_offsets_, rank + 1) - first);
  }
  std::size_t row_count() const { return shards_.size(); }

  friend bool operator==(const RangeMap&, const RangeMap&) = default;

 private:
  std::vector<ParamShard> shards_;
  std::vector<std::size_t> rank_offsets_;
};

/// What `rank` owns of one parameter; all ranges are empty where it owns nothing of it. `owners_of` in
/// owners.h says which ranks do.
ParamShard param_shard(const Layout& layout, int param, int rank);

/// For every rank of the buffer. Time is linear in the number of rows and in ranks × buckets.
RangeMap build_range_map(const Layout& layout, int buffer);

/// The same rows one rank after the other, holding only one rank's at a time. `layout` must outlive it.
class RangeMapWalker {
 public:
  RangeMapWalker(const Layout& layout, int buffer, int first_rank = 0);

  bool done() const { return rank_ == buffer_.dp_size; }
  int rank() const { return rank_; }  ///< whose rows `next` gives
  /// The rows of rank(), valid until the next call; then moves on to the rank after it.
  std::span<const ParamShard> next();

 private:
  const Layout& layout_;
  const BufferLayout& buffer_;
  int rank_;
  std::vector<std::size_t> first_param_;  ///< per bucket: position of the first that may overlap rank_
  std::vector<ParamShard> rows_;
};

}  // namespace zero1
