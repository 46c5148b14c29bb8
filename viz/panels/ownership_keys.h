// Selecting on the ownership map by keys: everything that a click selects.
#pragma once

#include "viz/model/document.h"
#include "viz/model/ownership_map.h"

namespace zero1::viz {

/// Selects the neighbour of what is selected as the keys of this frame say; where nothing is, the first.
void select_by_keys(Document& document, const OwnershipMap& map);

}  // namespace zero1::viz
