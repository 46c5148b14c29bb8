#include "viz/panels/timeline_strip.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "viz/model/first_iteration.h"

namespace zero1::viz {

namespace {

double length_of(const EventIndex::Step& step) {
  return static_cast<double>(step.when.end_ns) - static_cast<double>(step.when.start_ns);
}

}  // namespace

std::optional<std::size_t> draw_step_strip(ImDrawList& list, const EventIndex& events, const Theme& theme,
                                           const Box& box, trace::Interval window,
                                           std::optional<int> selected) {
  const auto steps = events.steps();
  list.AddRectFilled(box.min, box.max, faded(theme.grid(), 0.4F));
  if (steps.empty() || box.width() < 4) return {};
  const float least_px = 4 * theme.scale, most_px = 40 * theme.scale;
  const auto bars = std::min(steps.size(), static_cast<std::size_t>(std::max(1.0F, box.width() / least_px)));
  const float bar_px = std::min(box.width() / static_cast<float>(bars), most_px);
  double longest = 1;
  for (const EventIndex::Step& step : steps) longest = std::max(longest, length_of(step));

  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool inside =
      mouse.x >= box.min.x && mouse.x < box.max.x && mouse.y >= box.min.y && mouse.y < box.max.y;
  std::optional<std::size_t> under_mouse;
  for (std::size_t bar = 0; bar < bars; ++bar) {
    const std::size_t first = bar * steps.size() / bars;
    const std::size_t last = std::max(first + 1, (bar + 1) * steps.size() / bars);
    std::size_t tallest = first;
    bool in_view = false;
    bool chosen = false;
    for (std::size_t i = first; i < last; ++i) {
      if (length_of(steps[i]) > length_of(steps[tallest])) tallest = i;
      chosen = chosen || selected == steps[i].step;
      in_view = in_view || (steps[i].when.end_ns > window.start_ns && steps[i].when.start_ns < window.end_ns);
    }
    const float x0 = box.min.x + static_cast<float>(bar) * bar_px;
    const bool hovered = inside && mouse.x >= x0 && mouse.x < x0 + bar_px;
    if (hovered) under_mouse = tallest;
    const auto height = static_cast<float>(length_of(steps[tallest]) / longest) * (box.height() - 2);
    const ImU32 colour = hovered   ? theme.selected()
                         : in_view ? theme.kind(trace::Kind::forward)
                                   : faded(theme.faint_text(), 0.6F);
    list.AddRectFilled({x0, box.max.y - std::max(2.0F, height)}, {x0 + std::max(1.0F, bar_px - 1), box.max.y},
                       colour);
    if (chosen)
      list.AddRect({x0 - 1, box.min.y}, {x0 + std::max(2.0F, bar_px), box.max.y}, theme.selected(), 0, 0,
                   1.5F * theme.scale);
  }
  // Of a run's first iteration one knows before there is another to compare it with.
  const bool left_out = steps.size() == 1 && window.start_ns > steps[0].when.start_ns;
  if (left_out || first_prepares(events)) {
    const std::string note = fmt::format("iteration {} also prepares, once (Home: all)", steps[0].step);
    list.PushClipRect(box.min, box.max, true);
    draw_text(list, {box.min.x + bar_px + 4 * theme.scale, box.min.y}, theme.text(), note);
    list.PopClipRect();
  }
  return under_mouse;
}

}  // namespace zero1::viz
