// An element's place, as a small table.
#pragma once

#include "viz/model/element_place.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

/// `sharded`: with the distributed optimizer, so that one rank owns the element.
void draw_element_place(const ElementPlace& place, const Layout& layout, const Theme& theme, bool sharded);

}  // namespace zero1::viz
