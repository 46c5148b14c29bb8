#include "core/layout/svg_tiles.h"

#include <algorithm>
#include <cmath>

namespace zero1::svg {
namespace {

constexpr std::int64_t most_tiles = 1500;
constexpr double most_lines = 12;
constexpr double wanted_tile_px = 200;
constexpr double least_tile_px = 4;

std::vector<Tile> make_tiles(const BufferLayout& buffer) {
  const auto count = static_cast<std::int64_t>(buffer.buckets.size());
  // Beyond most_tiles buckets, neighbours are joined until a tile holds its fair part of the buffer or of
  // the buckets.
  const bool join = count > most_tiles;
  const std::int64_t enough_elems = join ? buffer.numel / most_tiles * 2 : 0;
  const std::int64_t enough_buckets = join ? count / most_tiles * 2 : 1;
  std::vector<Tile> tiles;
  for (int k = 0; k < static_cast<int>(count); ++k) {
    const Range world = at(buffer.buckets, k).world;
    const bool extend = join && !tiles.empty() && tiles.back().world.size() + world.size() <= enough_elems &&
                        tiles.back().end_bucket - tiles.back().first_bucket < enough_buckets;
    if (!extend) tiles.push_back({k, k, {world.start, world.start}, 0, 0, 0});
    tiles.back().end_bucket = k + 1;
    tiles.back().world.end = world.end;
  }
  return tiles;
}

/// Places the tiles at a scale and returns how many lines they need.
int place(std::vector<Tile>& tiles, double px_per_elem, double line_px, double gap_px) {
  int line = 0;
  double x = 0;
  for (Tile& tile : tiles) {
    tile.width_px = std::max(least_tile_px, px_per_elem * static_cast<double>(tile.world.size()));
    if (x > 0 && x + tile.width_px > line_px * (1 + 1e-9)) {
      ++line;
      x = 0;
    }
    tile.line = line;
    tile.x_px = x;
    x += tile.width_px + gap_px;
  }
  return line + 1;
}

}  // namespace

TilePlan plan_tiles(const BufferLayout& buffer, double line_px) {
  TilePlan plan{make_tiles(buffer), 0};
  if (plan.tiles.empty()) return plan;
  const auto count = static_cast<double>(plan.tiles.size());
  const double lines = std::clamp(std::ceil(count * wanted_tile_px / line_px), 1.0, most_lines);
  const double gap_px = count / lines <= 30 ? 6 : 2;
  std::int64_t largest = 1;
  for (const Tile& tile : plan.tiles) largest = std::max(largest, tile.world.size());

  double fits = 0;
  double too_large = line_px / static_cast<double>(largest);
  if (place(plan.tiles, too_large, line_px, gap_px) <= static_cast<int>(lines)) fits = too_large;
  for (int i = 0; i < 40 && fits < too_large; ++i) {
    const double middle = (fits + too_large) / 2;
    (place(plan.tiles, middle, line_px, gap_px) <= static_cast<int>(lines) ? fits : too_large) = middle;
  }
  plan.lines = place(plan.tiles, fits, line_px, gap_px);
  return plan;
}

}  // namespace zero1::svg
