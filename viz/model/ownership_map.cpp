#include "viz/model/ownership_map.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace zero1::viz {

namespace {

constexpr double widest_element_px = 160;

/// Keeps a view on the axis and its scale within what makes sense.
MapView clamped(MapView view, std::int64_t numel) {
  const double columns = std::max(view.columns, 1);
  const auto length = static_cast<double>(std::max<std::int64_t>(numel, 1));
  const double coarsest = length / columns;
  view.elems_per_px = std::clamp(view.elems_per_px, std::min(coarsest, 1 / widest_element_px),
                                 std::max(coarsest, 1 / widest_element_px));
  view.first = std::clamp(view.first, 0.0, std::max(0.0, length - columns * view.elems_per_px));
  return view;
}

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Walks the pixel columns of one band, left to right.
template <class TileAt>
void walk_columns(const MapView& view, std::int64_t numel, bool join_merged, std::vector<MapPiece>& pieces,
                  TileAt&& tile_at) {
  const auto column_of = [&](double axis) {
    return static_cast<int>(std::clamp(std::floor(view.x_of(axis)), 0.0, static_cast<double>(view.columns)));
  };
  const auto element_at = [&](double axis) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(axis)), 0, numel - 1);
  };
  constexpr std::int64_t none = -1;
  std::int64_t whole = none;         // ordinal of the piece before, where it is not merged
  std::int64_t merged_first = none;  // ordinal of the first in the piece before, where it is merged
  for (int column = column_of(0); column < view.columns;) {
    const double start = view.axis_of(column);
    if (start >= static_cast<double>(numel)) break;
    const double end = std::min(view.axis_of(column + 1), static_cast<double>(numel));
    const auto first = tile_at(element_at(start));
    const auto last = tile_at(std::max(element_at(start), element_at(std::ceil(end) - 1)));
    const bool one = first.ordinal == last.ordinal;
    const int end_px = one ? std::max(column + 1, column_of(static_cast<double>(first.end))) : column + 1;
    const auto shown = one ? first : tile_at(element_at((start + end) / 2));
    if (last.ordinal - first.ordinal < 2) {
      if (shown.ordinal != whole) pieces.push_back({column, end_px, shown.index, shown.bucket, 1, false});
      whole = shown.ordinal;
      merged_first = none;
    } else {
      const bool several_buckets = last.bucket != first.bucket;
      const bool join =
          merged_first != none && (join_merged || (several_buckets && pieces.back().several_buckets));
      if (!join) {
        pieces.push_back({column, end_px, shown.index, first.bucket, 1, false});
        merged_first = first.ordinal;
      }
      pieces.back().count = last.ordinal - merged_first + 1;
      pieces.back().several_buckets |= last.bucket != pieces.back().bucket;
      whole = none;
    }
    pieces.back().end_px = end_px;
    column = end_px;
  }
}

}  // namespace

OwnershipMap::OwnershipMap(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) {
  std::int64_t first_shard = 0;
  for (std::size_t b = 0; b < layout_->buffers.size(); ++b) {
    const BufferLayout& buffer = layout_->buffers[b];
    buffer_starts_.push_back(numel_);
    first_buckets_.push_back(static_cast<int>(buckets_.size()));
    max_ranks_ = std::max(max_ranks_, buffer.dp_size);
    for (std::size_t k = 0; k < buffer.buckets.size(); ++k) {
      const Range axis = buffer.buckets[k].world.shifted(numel_);
      buckets_.push_back({static_cast<int>(b), static_cast<int>(k), axis,
                          buffer.shard_elems(static_cast<int>(k)), buffer.dp_size, first_shard});
      first_shard += buffer.dp_size;
      add_segments(static_cast<int>(buckets_.size()) - 1);
    }
    numel_ += buffer.numel;
  }
}

void OwnershipMap::add_segments(int bucket) {
  const Bucket& here = buckets_[static_cast<std::size_t>(bucket)];
  const BufferLayout& buffer = layout_->buffers[static_cast<std::size_t>(here.buffer)];
  std::int64_t at = here.axis.start;
  for (const int param : buffer.buckets[static_cast<std::size_t>(here.in_buffer)].params) {
    const Range axis = param_axis(param);
    if (axis.empty()) continue;
    if (axis.start > at) segments_.push_back({at, -1});
    segments_.push_back({axis.start, param});
    at = axis.end;
  }
  if (at < here.axis.end) segments_.push_back({at, -1});
}

int OwnershipMap::bucket_at(std::int64_t axis) const {
  const auto after = std::upper_bound(buckets_.begin(), buckets_.end(), axis,
                                      [](std::int64_t at, const Bucket& b) { return at < b.axis.start; });
  return static_cast<int>(after - buckets_.begin()) - 1;
}

std::size_t OwnershipMap::segment_at(std::int64_t axis) const {
  const auto after = std::upper_bound(segments_.begin(), segments_.end(), axis,
                                      [](std::int64_t at, const Segment& s) { return at < s.start; });
  return static_cast<std::size_t>(after - segments_.begin()) - 1;
}

MapPlace OwnershipMap::place_at(std::int64_t axis) const {
  MapPlace place;
  place.bucket = bucket_at(axis);
  const Bucket& bucket = buckets_[static_cast<std::size_t>(place.bucket)];
  place.buffer = bucket.buffer;
  place.world = axis - buffer_starts_[static_cast<std::size_t>(bucket.buffer)];
  place.in_bucket = axis - bucket.axis.start;
  place.rank = static_cast<int>(place.in_bucket / bucket.shard_elems);
  place.local = place.in_bucket % bucket.shard_elems;
  const Segment& segment = segments_[segment_at(axis)];
  if (segment.param >= 0) {
    place.param = segment.param;
    place.element = axis - segment.start;
  }
  return place;
}

Range OwnershipMap::param_axis(int param) const {
  const ParamLocation& location = layout_->locations[static_cast<std::size_t>(param)];
  return location.world.shifted(buffer_starts_[static_cast<std::size_t>(location.buffer)]);
}

int OwnershipMap::param_bucket(int param) const {
  const ParamLocation& location = layout_->locations[static_cast<std::size_t>(param)];
  return first_buckets_[static_cast<std::size_t>(location.buffer)] + location.bucket;
}

Range OwnershipMap::shard_axis(int bucket, int rank) const {
  const Bucket& here = buckets_[static_cast<std::size_t>(bucket)];
  const BufferLayout& buffer = layout_->buffers[static_cast<std::size_t>(here.buffer)];
  return buffer.shard_in_bucket(here.in_buffer, rank).shifted(here.axis.start);
}

OwnershipMap::Tile OwnershipMap::bucket_tile(std::int64_t axis) const {
  const int bucket = bucket_at(axis);
  return {buckets_[static_cast<std::size_t>(bucket)].axis.end, bucket, bucket, bucket};
}

OwnershipMap::Tile OwnershipMap::param_tile(std::int64_t axis) const {
  const std::size_t at = segment_at(axis);
  const std::int64_t end = at + 1 < segments_.size() ? segments_[at + 1].start : numel_;
  return {end, segments_[at].param, bucket_at(axis), static_cast<std::int64_t>(at)};
}

OwnershipMap::Tile OwnershipMap::owner_tile(std::int64_t axis) const {
  const int number = bucket_at(axis);
  const Bucket& bucket = buckets_[static_cast<std::size_t>(number)];
  const std::int64_t rank = (axis - bucket.axis.start) / bucket.shard_elems;
  return {bucket.axis.start + (rank + 1) * bucket.shard_elems, static_cast<int>(rank), number,
          bucket.first_shard + rank};
}

void OwnershipMap::pieces(Band band, const MapView& view, std::vector<MapPiece>& pieces) const {
  pieces.clear();
  if (numel_ == 0 || view.columns <= 0) return;
  switch (band) {
    case Band::buckets:
      walk_columns(view, numel_, true, pieces, [this](std::int64_t at) { return bucket_tile(at); });
      break;
    case Band::params:
      walk_columns(view, numel_, true, pieces, [this](std::int64_t at) { return param_tile(at); });
      break;
    case Band::owners:
      walk_columns(view, numel_, false, pieces, [this](std::int64_t at) { return owner_tile(at); });
      break;
  }
}

std::vector<int> OwnershipMap::find(std::string_view text) const {
  std::vector<int> found;
  for (const Segment& segment : segments_) {
    if (segment.param < 0) continue;
    const std::string& name = layout_->specs[static_cast<std::size_t>(segment.param)].name;
    if (std::search(name.begin(), name.end(), text.begin(), text.end(), same_letter) != name.end()) {
      found.push_back(segment.param);
    }
  }
  return found;
}

MapView fit_view(double start, double end, int columns, std::int64_t numel) {
  MapView view;
  view.columns = columns;
  const double length = std::max(end - start, 1.0);
  const double margin = start <= 0 && end >= static_cast<double>(numel) ? 0 : length * 0.06;
  view.elems_per_px = (length + 2 * margin) / std::max(columns, 1);
  view.first = start - margin;
  return clamped(view, numel);
}

MapView zoom_view(const MapView& view, double x_px, double factor, std::int64_t numel) {
  MapView next = view;
  next.elems_per_px = view.elems_per_px / factor;
  next = clamped(next, numel);
  next.first = view.axis_of(x_px) - x_px * next.elems_per_px;
  return clamped(next, numel);
}

MapView pan_view(const MapView& view, double by_px, std::int64_t numel) {
  MapView next = view;
  next.first += by_px * view.elems_per_px;
  return clamped(next, numel);
}

}  // namespace zero1::viz
