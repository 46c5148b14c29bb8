// The ownership map as numbers: what lies where on its axis, and what is drawn in which pixel column.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/layout/buffer_layout.h"
#include "core/layout/range_map.h"

namespace zero1::viz {

/// Which part of the axis is on screen.
struct MapView {
  double first = 0;         ///< the axis position at the left edge
  double elems_per_px = 1;  ///< below 1: an element is wider than a pixel
  int columns = 0;          ///< pixels

  double x_of(double axis) const { return (axis - first) / elems_per_px; }
  double axis_of(double x_px) const { return first + x_px * elems_per_px; }
  double end() const { return axis_of(columns); }
};

/// A rectangle of one band: whole pixel columns.
struct MapPiece {
  int begin_px = 0;
  int end_px = 0;
  int index = 0;           ///< bucket (global number), parameter (-1: padding) or rank, by band
  int bucket = 0;          ///< global number of the first bucket it touches
  std::int64_t count = 1;  ///< how many are drawn as one, because they are too narrow
  bool several_buckets = false;

  bool merged() const { return count > 1; }
  friend bool operator==(const MapPiece&, const MapPiece&) = default;
};

enum class Band { buckets, params, owners };

/// What lies at one position of the axis.
struct MapPlace {
  int buffer = 0;
  int bucket = 0;  ///< global number
  int rank = 0;    ///< the owner
  std::int64_t world = 0, in_bucket = 0, local = 0;
  std::optional<int> param;  ///< unset in padding
  std::int64_t element = 0;  ///< within the parameter
};

/// The axis holds all buffers' world coordinates one after the other.
class OwnershipMap {
 public:
  struct Bucket {
    int buffer = 0;
    int in_buffer = 0;  ///< its number within the buffer
    Range axis;
    std::int64_t shard_elems = 0;
    int ranks = 1;
    std::int64_t first_shard = 0;  ///< shards of all buckets before it
  };

  explicit OwnershipMap(std::shared_ptr<const Layout> layout);

  const Layout& layout() const { return *layout_; }
  std::int64_t numel() const { return numel_; }
  std::span<const Bucket> buckets() const { return buckets_; }
  const Bucket& bucket(int global) const { return buckets_[static_cast<std::size_t>(global)]; }
  int max_ranks() const { return max_ranks_; }

  /// `axis` in [0, numel()).
  int bucket_at(std::int64_t axis) const;
  MapPlace place_at(std::int64_t axis) const;

  Range param_axis(int param) const;
  int param_bucket(int param) const;  ///< global number
  Range shard_axis(int bucket, int rank) const;

  /// Replaces `pieces` with what a band shows: left to right, without gaps from the axis' first visible
  /// column to its last. A column belongs to the piece that covers it or, where two meet in it, to the one
  /// at its middle; columns that three or more touch are merged. At most one piece per column, and each
  /// costs a binary search, whatever the size of the model.
  void pieces(Band band, const MapView& view, std::vector<MapPiece>& pieces) const;

  /// The parameters whose names contain `text`, whatever the case, in the map's order.
  std::vector<int> find(std::string_view text) const;

 private:
  /// A piece of a band: where it ends and what it is. Ordinals count a band's pieces from the left.
  struct Tile {
    std::int64_t end = 0;
    int index = 0;
    int bucket = 0;
    std::int64_t ordinal = 0;
  };
  struct Segment {
    std::int64_t start = 0;
    int param = -1;
  };

  void add_segments(int bucket);
  std::size_t segment_at(std::int64_t axis) const;
  Tile bucket_tile(std::int64_t axis) const;
  Tile param_tile(std::int64_t axis) const;
  Tile owner_tile(std::int64_t axis) const;

  std::shared_ptr<const Layout> layout_;
  std::int64_t numel_ = 0;
  int max_ranks_ = 1;
  std::vector<std::int64_t> buffer_starts_;
  std::vector<int> first_buckets_;  ///< by buffer: the global number of its first bucket
  std::vector<Bucket> buckets_;     ///< by global number
  std::vector<Segment> segments_;   ///< parameters and padding, left to right
};

/// The view that shows [start, end) with a margin.
MapView fit_view(double start, double end, int columns, std::int64_t numel);
/// Keeps what is at `x_px` there and changes the scale; the view stays on the axis.
MapView zoom_view(const MapView& view, double x_px, double factor, std::int64_t numel);
MapView pan_view(const MapView& view, double by_px, std::int64_t numel);

}  // namespace zero1::viz
