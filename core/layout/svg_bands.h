// One box of the ownership map: its label, the band of parameters, the band of owners and the axis.
#pragma once

#include "core/layout/svg_paint.h"
#include "core/layout/svg_tiles.h"

namespace zero1::svg {

/// Where the parts of a line lie, in px below its top.
namespace line_part {
inline constexpr double label_baseline = 11;
inline constexpr double params_top = 17;
inline constexpr double band_height = 24;
inline constexpr double owners_top = params_top + band_height + 2;
inline constexpr double axis_top = owners_top + band_height + 3;
inline constexpr double axis_baseline = axis_top + 15;
inline constexpr double height = axis_baseline + 16;
}  // namespace line_part

/// One line of the map: where it lies on the picture, and how far its axis has labels.
struct Line {
  double left = 0;
  double top = 0;
  double width = 0;
  double axis_free_from = 0;  ///< from the left end
};

void draw_tile(Canvas& canvas, const Layout& layout, const BufferLayout& buffer, const Tile& tile,
               Line& line);

}  // namespace zero1::svg
