// How the states of a bucket's pieces look.
#pragma once

#include "viz/model/bucket_states.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

/// Gradients go from amber to green, parameters from blue to teal; each step is lighter or darker than the
/// one before, so that the order is seen without hues too.
ImU32 piece_colour(PieceState state, const Theme& theme);

/// Drawn hatched: under way, or no longer valid.
inline bool piece_hatched(PieceState state) {
  return state == PieceState::reducing || state == PieceState::gathering || state == PieceState::stale ||
         state == PieceState::left_over;
}

}  // namespace zero1::viz
