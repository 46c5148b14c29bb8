// Draws the timeline's lanes: bars, their names, arrows, the axis, what is selected and measured.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "viz/model/flow_arrows.h"
#include "viz/panels/timeline_scene.h"

namespace zero1::viz {

class TimelinePainter {
 public:
  /// All that lies in the lanes' box. `bars` are those of the rows in view.
  void draw_lanes(ImDrawList& list, const TimelineScene& scene, std::span<const TimelineBar> bars);
  void draw_arrows(ImDrawList& list, const TimelineScene& scene, std::span<const FlowArrow> arrows);
  void draw_marks(ImDrawList& list, const TimelineScene& scene) const;  ///< the moment, what is measured
  void draw_labels(ImDrawList& list, const TimelineScene& scene) const;
  static void draw_axis(ImDrawList& list, const TimelineScene& scene, const Box& box);

  /// Rectangles, letters and lines that were drawn since the last call.
  int primitives() const { return primitives_; }
  void start_frame(const Theme& theme);

 private:
  struct Paint {
    ImU32 fill = 0;
    ImU32 text = 0;
  };
  const Paint& paint(const Summary& look);
  void draw_bar(ImDrawList& list, const TimelineScene& scene, const TimelineBar& bar);
  void mark_changes(ImDrawList& list, const TimelineScene& scene, std::span<const TimelineBar> bars);
  void draw_name(ImDrawList& list, const TimelineScene& scene, const TimelineBar& bar, const Box& box,
                 ImU32 colour);
  void outline(ImDrawList& list, const TimelineScene& scene, EventId shown, ImU32 colour);

  std::array<Paint, 256> kinds_;
  std::vector<Paint> buckets_;  ///< by bucket + 1
  Paint exposed_;
  bool dark_ = false;
  bool ready_ = false;
  int primitives_ = 0;
};

}  // namespace zero1::viz
