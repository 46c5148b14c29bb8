// The ownership map: a picture of which rank owns which interval of which bucket.
#pragma once

#include <string>

#include "core/layout/buffer_layout.h"

namespace zero1 {

struct SvgOptions {
  std::string title;    ///< the headline; empty: "Who owns what"
  int width_px = 1100;  ///< at least 400; the height follows from the content
};

/// Draws every buffer: its buckets to one scale, over as many lines as they need; in each bucket a band of
/// parameters (padding hatched) and below it a band of the ranks that own them, with an axis in elements of
/// the buffer. Hovering shows names and exact ranges. What would be narrower than a few pixels is merged
/// and says so in its tooltip, so that the file stays below a few MB for any layout. The picture carries
/// its own background and follows the viewer's light or dark scheme.
std::string ownership_svg(const Layout& layout, const SvgOptions& options = {});

}  // namespace zero1
