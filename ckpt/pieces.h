// Which slices hold which elements of a parameter: arithmetic on a layout, no table.
#pragma once

#include <vector>

#include "core/layout/buffer_layout.h"

namespace zero1::ckpt {

/// A stretch of one parameter that lies in one rank's slice of one bucket.
struct Piece {
  int rank = 0;
  int buffer = 0;
  int bucket = 0;
  Range local = {};        ///< in the slice
  Range param_range = {};  ///< in the parameter; as long as `local`

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// Calls `visit(piece)` for the pieces of `param_range` of a parameter, in order and without gaps.
template <class Visit>
void for_each_piece(const Layout& layout, int param, Range param_range, Visit&& visit) {
  const ParamLocation& at = layout.locations[static_cast<std::size_t>(param)];
  const BufferLayout& buffer = layout.buffers[static_cast<std::size_t>(at.buffer)];
  const std::int64_t shard = buffer.shard_elems(at.bucket);
  const std::int64_t param_in_bucket =
      at.world.start - buffer.buckets[static_cast<std::size_t>(at.bucket)].world.start;
  for (std::int64_t done = param_range.start; done < param_range.end;) {
    const std::int64_t in_bucket = param_in_bucket + done;
    const std::int64_t rank = in_bucket / shard;
    const std::int64_t count = std::min(param_range.end - done, (rank + 1) * shard - in_bucket);
    const Range local{in_bucket - rank * shard, in_bucket - rank * shard + count};
    visit(Piece{static_cast<int>(rank), at.buffer, at.bucket, local, {done, done + count}});
    done += count;
  }
}

/// A rectangle of an N-dimensional array: [start[d], start[d] + count[d]) in each dimension.
struct Box {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> count;

  friend bool operator==(const Box&, const Box&) = default;
};

/// The boxes that a flat range of a row-major array consists of, in the order of their elements: the rest
/// of a first row, whole rows, the beginning of a last one, in every dimension. At most 2 · dims - 1.
std::vector<Box> boxes_of(const std::vector<std::int64_t>& shape, Range flat);

}  // namespace zero1::ckpt
