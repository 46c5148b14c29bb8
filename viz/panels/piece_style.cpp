#include "viz/panels/piece_style.h"

namespace zero1::viz {

ImU32 piece_colour(PieceState state, const Theme& theme) {
  switch (state) {
    case PieceState::unknown: return theme.grid();
    case PieceState::accumulating: return IM_COL32(0xF7, 0xE3, 0xA1, 255);
    case PieceState::ready: return IM_COL32(0xE6, 0x9F, 0x00, 255);
    case PieceState::reducing: return IM_COL32(0xB5, 0x62, 0x12, 255);
    case PieceState::reduced: return IM_COL32(0x5F, 0xB0, 0x4C, 255);
    case PieceState::left_over: return theme.padding();
    case PieceState::stepped: return IM_COL32(0x2F, 0x6F, 0xD0, 255);
    case PieceState::stale: return theme.padding();
    case PieceState::gathering: return IM_COL32(0x6C, 0x8E, 0xBF, 255);
    case PieceState::current: return IM_COL32(0x7F, 0xD1, 0xC4, 255);
  }
  return theme.grid();
}

}  // namespace zero1::viz
