// What the parts of the timeline share while a frame is drawn.
#pragma once

#include <optional>

#include "viz/model/document.h"
#include "viz/model/event_index.h"
#include "viz/model/logical_order.h"
#include "viz/model/timeline_drawing.h"
#include "viz/model/timeline_rows.h"
#include "viz/model/timeline_view.h"
#include "viz/panels/draw.h"
#include "viz/panels/theme.h"

namespace zero1::viz {

struct TimelineScene {
  Document& document;
  const Theme& theme;
  const EventIndex& events;     ///< what is shown: the document's, or those of the logical order
  const LogicalOrder* logical;  ///< null: in physical time
  const TimelineRows& rows;
  const TimeView& view;
  Box lanes;       ///< where bars are drawn, on the screen
  float label_px;  ///< of the lanes' names, to the left
  float scroll_px;
  EventId hovered = -1;  ///< number in `events`
  std::optional<trace::Interval> measured = std::nullopt;

  /// Numbers in the document, which everything but the drawing goes by, and in `events`; -1: not shown.
  EventId original(EventId shown) const {
    return logical == nullptr || shown < 0 ? shown : logical->originals[static_cast<std::size_t>(shown)];
  }
  EventId shown(EventId original) const {
    if (logical != nullptr) return logical->number_of(original);
    return original < events.size() ? original : -1;
  }

  float x(double at_ns) const {
    return lanes.min.x + static_cast<float>(std::clamp(view.x_of(at_ns), -1e4, view.width_px() + 1e4));
  }
  float y(float row_y) const { return lanes.min.y + row_y - scroll_px; }
  Box box_of(const TimelineRow& row, float x0, float x1) const {
    return {{lanes.min.x + x0, y(row.y0)}, {lanes.min.x + x1, y(row.y1)}};
  }
};

}  // namespace zero1::viz
