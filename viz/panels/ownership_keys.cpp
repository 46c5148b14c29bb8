#include "viz/panels/ownership_keys.h"

#include <algorithm>
#include <optional>

#include "viz/panels/input.h"

namespace zero1::viz {

namespace {

/// On the axis: the parameter that begins before or behind the selected one.
void select_param_beside(const OwnershipMap& map, Selection& next, int by) {
  const int params = static_cast<int>(map.layout().specs.size());
  const bool known = next.param && *next.param >= 0 && *next.param < params;
  const std::int64_t from = known ? map.param_axis(*next.param).start : by > 0 ? -1 : map.numel();
  std::optional<int> found;
  for (int param = 0; param < params; ++param) {
    const Range axis = map.param_axis(param);
    if (axis.empty() || (axis.start - from) * by <= 0) continue;
    if (!found || (axis.start - map.param_axis(*found).start) * by < 0) found = param;
  }
  if (!found) return;
  next.param = found;
  next.element = 0;
  next.bucket = map.param_bucket(*found);
}

void select_element_beside(const OwnershipMap& map, Selection& next, int by) {
  if (!next.param || *next.param < 0 || *next.param >= static_cast<int>(map.layout().specs.size())) return;
  const std::int64_t elems = map.param_axis(*next.param).size();
  if (elems > 0) next.element = std::clamp<std::int64_t>(next.element.value_or(-by) + by, 0, elems - 1);
}

}  // namespace

void select_by_keys(Document& document, const OwnershipMap& map) {
  Selection next = document.selection;
  const auto neighbour = [](std::optional<int>& of, int by, int count) {
    if (count > 0) of = std::clamp(of ? *of + by : 0, 0, count - 1);
  };
  if (input::pressed(ImGuiKey_UpArrow, true)) neighbour(next.rank, -1, map.max_ranks());
  if (input::pressed(ImGuiKey_DownArrow, true)) neighbour(next.rank, 1, map.max_ranks());
  const auto to_bucket = [&](int by) {
    neighbour(next.bucket, by, static_cast<int>(map.buckets().size()));
    next.param.reset();
    next.element.reset();
  };
  if (input::pressed(ImGuiKey_PageUp, true)) to_bucket(-1);
  if (input::pressed(ImGuiKey_PageDown, true)) to_bucket(1);
  const int aside = (input::pressed(ImGuiKey_RightArrow, true) ? 1 : 0) -
                    (input::pressed(ImGuiKey_LeftArrow, true) ? 1 : 0);
  if (aside != 0 && input::shift()) select_param_beside(map, next, aside);
  if (aside != 0 && input::ctrl()) select_element_beside(map, next, aside);
  if (next.rank == document.selection.rank && next.bucket == document.selection.bucket &&
      next.param == document.selection.param && next.element == document.selection.element) {
    return;
  }
  next.event.reset();
  document.selection.set(next);
}

}  // namespace zero1::viz
