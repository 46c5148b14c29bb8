// ImGui's own colours and sizes, from the theme.
#pragma once

#include "viz/panels/theme.h"

namespace zero1::viz {

void apply_style(const Theme& theme);

}  // namespace zero1::viz
