// The bands of the ownership map: drawing only. Coordinates are the screen's; columns begin at `left`.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "viz/model/bucket_states.h"
#include "viz/model/document.h"
#include "viz/model/ownership_map.h"
#include "viz/panels/draw.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

/// One row of the map.
struct MapRow {
  enum class What { header, params, owners, state, param_values, gradient_values };
  What what = What::header;
  int rank = 0;  ///< of states and values
  float top = 0;
  float bottom = 0;
};

/// What a draw of the map reads. Refers to what its maker holds.
struct MapScene {
  ImDrawList& list;
  const Theme& theme;
  const OwnershipMap& map;
  const MapView& view;
  const Document& document;
  BucketStates* states = nullptr;  ///< null without events
  float left = 0;                  ///< of the axis, and
  float right = 0;                 ///< its end: left + view.columns
  bool sharded = true;             ///< else every rank owns everything
  /// What a row of values shows at a place, where it can be read now.
  std::function<std::optional<float>(const MapRow& row, const MapPlace& place)> value;

  Box box(const MapRow& row, int begin_px, int end_px) const {
    return {{left + static_cast<float>(begin_px), row.top}, {left + static_cast<float>(end_px), row.bottom}};
  }
  float x_of(std::int64_t axis) const {
    return left + static_cast<float>(view.x_of(static_cast<double>(axis)));
  }
};

/// Draws rows and keeps its scratch memory from frame to frame.
class MapPainter {
 public:
  void draw_row(const MapScene& scene, const MapRow& row);
  /// The whole axis, small, with the view's place on it.
  void draw_minimap(const MapScene& scene, const Box& box);
  /// Outlines of what is selected, over all rows between top and bottom.
  void draw_selection(const MapScene& scene, const std::vector<MapRow>& rows);

 private:
  void draw_header(const MapScene& scene, const MapRow& row);
  void draw_params(const MapScene& scene, const MapRow& row);
  void draw_all_own(const MapScene& scene, const MapRow& row);
  void draw_owners(const MapScene& scene, const MapRow& row);
  void draw_states(const MapScene& scene, const MapRow& row);
  void draw_values(const MapScene& scene, const MapRow& row);

  std::vector<MapPiece> pieces_;
};

}  // namespace zero1::viz
