// How the buckets of a buffer are spread over the lines of the ownership map.
#pragma once

#include <vector>

#include "core/layout/buffer_layout.h"

namespace zero1::svg {

/// A box on the map: one bucket, or a run of buckets too small to be drawn apart.
struct Tile {
  int first_bucket = 0;
  int end_bucket = 0;
  Range world;  ///< in the buffer
  int line = 0;
  double x_px = 0;  ///< from the left end of the line
  double width_px = 0;

  bool merged() const { return end_bucket - first_bucket > 1; }
  double px_per_elem() const { return world.empty() ? 0 : width_px / static_cast<double>(world.size()); }
  /// Where a world index lies, from the left end of the line.
  double x_of(std::int64_t world_index) const {
    return x_px + static_cast<double>(world_index - world.start) * px_per_elem();
  }
};

struct TilePlan {
  std::vector<Tile> tiles;
  int lines = 0;
};

/// Spreads the buckets in order over lines of `line_px`, at the largest common scale at which they need no
/// more lines than are good to look at. Tiles keep a least width, so that small buckets stay visible.
TilePlan plan_tiles(const BufferLayout& buffer, double line_px);

}  // namespace zero1::svg
