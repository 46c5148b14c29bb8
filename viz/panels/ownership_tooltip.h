// What the ownership map says of the piece under the cursor.
#pragma once

#include <span>

#include "viz/panels/ownership_bands.h"

namespace zero1::viz {

/// Between BeginTooltip and EndTooltip. `place` is what lies at the cursor.
void tell_place(const MapScene& scene, const MapRow& row, const MapPlace& place);

/// A tooltip below the selected parameter, else below the selected bucket; nothing where neither is.
void tell_selected(const MapScene& scene, std::span<const MapRow> rows);

}  // namespace zero1::viz
