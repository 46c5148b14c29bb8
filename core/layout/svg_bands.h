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

/// Draws `tile` with its line's left end at `left` and top at `top`. `axis_free_from` is where, on this
/// line, the axis still has room for a label; it is moved on.
void draw_tile(Canvas& canvas, const Layout& layout, const BufferLayout& buffer, const Tile& tile,
               double left, double top, double& axis_free_from);

}  // namespace zero1::svg
