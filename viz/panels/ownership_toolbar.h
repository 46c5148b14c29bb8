// What stands above the ownership map: the search, and what the colours of states mean.
#pragma once

#include <array>
#include <vector>

#include "viz/model/document.h"
#include "viz/model/ownership_map.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

/// Finds parameters by name and selects them, one after the other.
class MapSearch {
 public:
  void draw(Document& document, const OwnershipMap& map);
  /// Puts the keyboard into the field with the next draw.
  void focus() { focus_ = true; }
  /// The map is another one.
  void forget();

 private:
  void go(Document& document, const OwnershipMap& map, int by);

  std::array<char, 128> text_{};
  std::vector<int> found_;
  int at_ = -1;
  bool focus_ = false;
};

/// In the line of what was drawn last, as much as fits.
void draw_state_legend(const Theme& theme);

}  // namespace zero1::viz
