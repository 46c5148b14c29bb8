// Scrolling through a list of any length.
#pragma once

#include <imgui.h>

#include <algorithm>
#include <cstdint>

namespace zero1::viz {

/// Which rows of a list are on screen, counted in rows: ImGui's own scrolling reckons in pixels as floats,
/// which cannot tell the rows of a list of millions apart.
class RowScroll {
 public:
  /// Draws the bar along the right edge of what is left of the window, and takes the wheel over the window
  /// and, where the window has the keyboard, Page up and Page down. The rows are the caller's to draw, from
  /// the cursor on, not wider than `width_px()`.
  void draw(std::int64_t rows, std::int64_t visible);

  std::int64_t first() const { return first_; }
  /// Of the bar.
  static float width_px();
  /// As of the last drawing.
  bool at_end() const { return at_end_; }
  /// Brings a row into the middle.
  void show(std::int64_t row, std::int64_t visible) { first_ = row - visible / 2; }
  /// Scrolls no further than it must to have a row on screen.
  void reveal(std::int64_t row, std::int64_t visible) { first_ = std::clamp(first_, row - visible + 1, row); }

 private:
  void drag(std::int64_t last, float top, float room, float grab);

  std::int64_t first_ = 0;
  float wheel_ = 0;    ///< what is left of the wheel's way, in rows
  float held_at_ = 0;  ///< where the bar is held, from its top
  bool at_end_ = true;
};

}  // namespace zero1::viz
