// What the ownership map says of the piece under the cursor.
#pragma once

#include "viz/panels/ownership_bands.h"

namespace zero1::viz {

/// Between BeginTooltip and EndTooltip. `place` is what lies at the cursor.
void tell_place(const MapScene& scene, const MapRow& row, const MapPlace& place);

}  // namespace zero1::viz
