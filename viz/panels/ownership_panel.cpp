// The ownership map: which rank owns what, and what state it is in.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "viz/model/element_values.h"
#include "viz/model/run_settings.h"
#include "viz/panels/input.h"
#include "viz/panels/ownership_bands.h"
#include "viz/panels/ownership_keys.h"
#include "viz/panels/ownership_toolbar.h"
#include "viz/panels/ownership_tooltip.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

constexpr int most_state_rows = 8;
constexpr double values_from_px = 44;  // an element this wide has its value printed
constexpr double wheel_factor = 1.25;

class OwnershipPanel final : public Panel {
 public:
  std::string_view title() const override { return "Ownership map"; }
  void draw(Document& document, const Theme& theme) override;
  bool searches() const override { return true; }
  void begin_search() override { search_.focus(); }
  std::string_view help() const override {
    return "wheel  zoom at the cursor, down to single elements\n"
           "drag, arrows  pan;  + and -  zoom;  F  show everything\n"
           "click  select a bucket, parameter, element or shard\n"
           "Up, Down  select the rank before, after;  Page up, Page down  the bucket\n"
           "Shift with Left, Right  the parameter;  Ctrl with Left, Right  the element\n"
           "hover, Enter  a parameter's four ranges, and who owns which part\n"
           "/  search by name; Enter for the next match\n"
           "strip at the bottom  the whole axis: click or drag to go there";
  }

 private:
  void follow_document(Document& document);
  void draw_toolbar(Document& document, const Theme& theme);
  void draw_map(Document& document, const Theme& theme);
  void draw_gutter(ImDrawList& list, const Theme& theme, ImVec2 origin) const;
  void arrange(const Document& document, ImVec2 origin, ImVec2 size);
  void handle_mouse(Document& document, const MapScene& scene);
  void handle_minimap();
  void handle_keys(Document& document);
  void read_values(const Document& document);
  std::optional<float> value_at(const MapRow& row, const MapPlace& place) const;
  void select_at(Document& document, const MapRow& row, const MapPlace& place);
  void show(const Range& axis);
  void show_selection(const Selection& selection);
  const MapRow* row_at(float y) const;

  std::shared_ptr<const Layout> layout_;
  std::unique_ptr<OwnershipMap> map_;
  std::shared_ptr<EventIndex> events_;
  std::unique_ptr<BucketStates> states_;
  MapPainter painter_;
  MapView view_;
  bool fit_ = true;
  bool sharded_ = true;
  bool tells_ = false;  ///< of what is selected, until the mouse moves
  std::uint64_t seen_revision_ = 0;

  std::vector<MapRow> rows_;
  int ranks_ = 0;
  bool more_ranks_ = false;  ///< than rows of states
  float more_top_ = 0;
  std::map<int, ElementValues> values_;  ///< by rank: what is visible, when single elements are
  int values_buffer_ = 0;
  Box minimap_{};
  float gutter_px_ = 0;

  MapSearch search_;
};

void OwnershipPanel::follow_document(Document& document) {
  if (document.layout != layout_) {
    layout_ = document.layout;
    sharded_ = shards_optimizer(document.info);
    map_ = layout_ == nullptr ? nullptr : std::make_unique<OwnershipMap>(layout_);
    fit_ = true;
    search_.forget();
  }
  if (document.events != events_) {
    events_ = document.events;
    states_ = events_ == nullptr ? nullptr : std::make_unique<BucketStates>(*events_);
  }
}

void OwnershipPanel::draw(Document& document, const Theme& theme) {
  follow_document(document);
  if (map_ == nullptr || map_->numel() == 0) {
    ImGui::TextWrapped("%s", document.error.empty()
                                 ? "No layout: this recording was made before traces held it."
                                 : document.error.c_str());
    return;
  }
  draw_toolbar(document, theme);
  draw_map(document, theme);
}

void OwnershipPanel::draw_toolbar(Document& document, const Theme& theme) {
  search_.draw(document, *map_);
  ImGui::SameLine();
  if (ImGui::Button("Fit")) fit_ = true;
  if (states_ != nullptr) draw_state_legend(theme);
}

/// Header, parameters and owners share the height with as many ranks' states as there is room for.
void OwnershipPanel::arrange(const Document& document, ImVec2 origin, ImVec2 size) {
  const float line = ImGui::GetTextLineHeight();
  const float gap = std::floor(0.35F * line);
  const bool values =
      document.live != nullptr && document.moment.follow && 1 / view_.elems_per_px >= values_from_px;
  const int ranks = document.events != nullptr ? std::max(document.info.ranks, 1) : 0;
  ranks_ = ranks;
  const float minimap_px = std::floor(0.8F * line);
  float room = size.y - minimap_px - 2 * gap - 1.5F * line;
  // First every rank's states, then tall bands, then tall states.
  const auto states_in = [&](float height) {
    return std::clamp(static_cast<int>((height - 4.2F * line) / (1.35F * line)), ranks > 0 ? 1 : 0,
                      std::min(ranks, most_state_rows));
  };
  more_ranks_ = states_in(room) < ranks;
  if (more_ranks_) room -= line;  // which is where that is said
  int states = states_in(room);
  const auto rows = static_cast<float>(states);
  const float usual = std::clamp(room - gap - rows * 1.35F * line, 2.4F * line, 10 * line);
  const float state_px = states == 0 ? 0 : std::clamp((room - gap - usual) / rows, 1.35F * line, 2.4F * line);
  const float both = std::clamp(room - gap - rows * state_px, usual, 16 * line);
  const float band = std::floor(both / 2);

  rows_.clear();
  float y = origin.y;
  const auto add = [&](MapRow::What what, int rank, float height, float after) {
    rows_.push_back({what, rank, std::floor(y), std::floor(y + height)});
    y += height + after;
  };
  add(MapRow::What::header, 0, 1.5F * line, 1);
  add(MapRow::What::params, 0, band, 1);
  add(MapRow::What::owners, 0, band, gap);
  if (values) states = std::max(states / 3, 1);
  const int chosen = std::clamp(document.selection.rank.value_or(0), 0, std::max(0, ranks - 1));
  const int first = std::clamp(chosen - states / 2, 0, std::max(0, ranks - states));
  for (int rank = first; rank < std::min(first + states, ranks); ++rank) {
    add(MapRow::What::state, rank, state_px - 2, 2);
    if (!values) continue;
    add(MapRow::What::param_values, rank, state_px - 2, 2);
    add(MapRow::What::gradient_values, rank, state_px - 2, 2);
  }
  more_ranks_ = more_ranks_ || (ranks > 0 && states < ranks);
  more_top_ = y;
  if (more_ranks_) y += line;
  y = std::min(y + gap, origin.y + size.y - minimap_px);
  minimap_ = {{origin.x + gutter_px_, std::floor(y)}, {origin.x + size.x, std::floor(y + minimap_px)}};
}

void OwnershipPanel::draw_gutter(ImDrawList& list, const Theme& theme, ImVec2 origin) const {
  for (const MapRow& row : rows_) {
    std::string label;
    switch (row.what) {
      case MapRow::What::header: label = "buckets"; break;
      case MapRow::What::params: label = "parameters"; break;
      case MapRow::What::owners: label = "owners"; break;
      case MapRow::What::state: label = fmt::format("rank {}", row.rank); break;
      case MapRow::What::param_values: label = "values"; break;
      case MapRow::What::gradient_values: label = "gradients"; break;
    }
    const float y = (row.top + row.bottom - ImGui::GetFontSize()) / 2;
    const float x = origin.x + gutter_px_ - text_size(label).x - 0.5F * ImGui::GetFontSize();
    draw_text(list, {x, std::floor(y)}, theme.faint_text(), label);
    if (row.what != MapRow::What::state) continue;
    const float mark = 0.6F * ImGui::GetFontSize();
    const float top = std::floor((row.top + row.bottom - mark) / 2);
    list.AddRectFilled({origin.x, top}, {origin.x + mark, top + mark},
                       theme.rank(row.rank, map_->max_ranks()));
  }
  if (more_ranks_) {
    const auto shown = std::count_if(rows_.begin(), rows_.end(),
                                     [](const MapRow& row) { return row.what == MapRow::What::state; });
    draw_text(list, {origin.x + gutter_px_, std::floor(more_top_)}, theme.faint_text(),
              fmt::format("{} of {} ranks; Up and Down select others", shown, ranks_));
  }
  const float y = (minimap_.min.y + minimap_.max.y - ImGui::GetFontSize()) / 2;
  const float x = origin.x + gutter_px_ - text_size("everything").x - 0.5F * ImGui::GetFontSize();
  draw_text(list, {x, std::floor(y)}, theme.faint_text(), "everything");
}

void OwnershipPanel::draw_map(Document& document, const Theme& theme) {
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  ImVec2 size = ImGui::GetContentRegionAvail();
  size.x = std::max(size.x, 50.0F);
  size.y = std::max(size.y, 50.0F);
  gutter_px_ = text_size("parameters").x + 0.8F * ImGui::GetFontSize();
  const int columns = std::max(1, static_cast<int>(size.x - gutter_px_));
  if (columns != view_.columns) {
    const bool whole = view_.columns > 0 &&
                       view_.elems_per_px * view_.columns >= static_cast<double>(map_->numel()) * (1 - 1e-9);
    view_.columns = columns;
    fit_ = fit_ || whole;
  }
  if (fit_) view_ = fit_view(0, static_cast<double>(map_->numel()), columns, map_->numel());
  fit_ = false;
  if (document.selection.revision != seen_revision_) {
    seen_revision_ = document.selection.revision;
    show_selection(document.selection);
  }
  arrange(document, origin, size);

  ImGui::InvisibleButton("map", size, ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonMiddle);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float left = origin.x + gutter_px_;
  MapScene scene{list,     theme,
                 *map_,    view_,
                 document, states_.get(),
                 left,     left + static_cast<float>(columns),
                 sharded_, [this](const MapRow& row, const MapPlace& place) { return value_at(row, place); }};
  read_values(document);
  handle_minimap();
  const ImVec2 moved = ImGui::GetIO().MouseDelta;
  tells_ = tells_ && moved.x == 0 && moved.y == 0 && ImGui::IsWindowFocused();
  handle_mouse(document, scene);
  if (ImGui::IsWindowFocused()) handle_keys(document);
  if (tells_) tell_selected(scene, rows_);
  draw_gutter(list, theme, origin);
  list.PushClipRect({left - 2, origin.y}, {scene.right + 2, origin.y + size.y}, true);
  for (const MapRow& row : rows_) painter_.draw_row(scene, row);
  painter_.draw_selection(scene, rows_);
  painter_.draw_minimap(scene, minimap_);
  list.PopClipRect();
}

const MapRow* OwnershipPanel::row_at(float y) const {
  for (const MapRow& row : rows_) {
    if (y >= row.top && y < row.bottom) return &row;
  }
  return nullptr;
}

void OwnershipPanel::handle_mouse(Document& document, const MapScene& scene) {
  const ImGuiIO& io = ImGui::GetIO();
  const double x = io.MousePos.x - scene.left;
  if (ImGui::IsItemHovered() && io.MouseWheel != 0 && x >= 0) {
    view_ = zoom_view(view_, x, std::pow(wheel_factor, io.MouseWheel), map_->numel());
  }
  const bool on_minimap = io.MouseClickedPos[0].y >= minimap_.min.y;
  if (ImGui::IsItemActive() && !on_minimap && ImGui::IsMouseDragging(ImGuiMouseButton_Left)) {
    view_ = pan_view(view_, -io.MouseDelta.x, map_->numel());
  }
  if (!ImGui::IsItemHovered() || x < 0 || x >= view_.columns) return;
  const auto axis = static_cast<std::int64_t>(std::floor(view_.axis_of(x)));
  const MapRow* row = row_at(io.MousePos.y);
  if (row == nullptr || axis < 0 || axis >= map_->numel()) return;
  const MapPlace place = map_->place_at(axis);
  if (!ImGui::IsItemActive() && !tells_) {
    ImGui::BeginTooltip();
    tell_place(scene, *row, place);
    ImGui::EndTooltip();
  }
  const bool dragged = io.MouseDragMaxDistanceSqr[0] > io.MouseDragThreshold * io.MouseDragThreshold;
  if (ImGui::IsMouseReleased(ImGuiMouseButton_Left) && !dragged && !on_minimap) {
    select_at(document, *row, place);
  }
}

void OwnershipPanel::handle_minimap() {
  const ImGuiIO& io = ImGui::GetIO();
  if (!ImGui::IsItemActive() || io.MouseClickedPos[0].y < minimap_.min.y) return;
  const double share = (io.MousePos.x - minimap_.min.x) / std::max(1.0F, minimap_.width());
  const double middle = share * static_cast<double>(map_->numel());
  view_.first = middle - view_.elems_per_px * view_.columns / 2;
  view_ = pan_view(view_, 0, map_->numel());
}

void OwnershipPanel::handle_keys(Document& document) {
  if (ImGui::GetIO().WantTextInput) return;
  select_by_keys(document, *map_);
  if (!input::letters_free()) return;
  if (input::pressed(ImGuiKey_Enter)) tells_ = !tells_;
  if (input::pressed(ImGuiKey_Escape)) tells_ = false;
  if (input::pressed('F')) fit_ = true;
  if (input::pressed('/')) search_.focus();
  const double middle = view_.columns / 2.0;
  if (input::pressed('=', true)) view_ = zoom_view(view_, middle, wheel_factor, map_->numel());
  if (input::pressed('-', true)) view_ = zoom_view(view_, middle, 1 / wheel_factor, map_->numel());
  if (input::shift()) return;
  const double step = view_.columns / 8.0;
  if (input::pressed(ImGuiKey_LeftArrow, true)) view_ = pan_view(view_, -step, map_->numel());
  if (input::pressed(ImGuiKey_RightArrow, true)) view_ = pan_view(view_, step, map_->numel());
}

/// Once per frame, for the ranks that have rows of values: what is on screen of one buffer.
void OwnershipPanel::read_values(const Document& document) {
  values_.clear();
  if (document.live == nullptr || !document.live->can_read()) return;
  const auto first = static_cast<std::int64_t>(std::max(view_.first, 0.0));
  const MapPlace place = map_->place_at(std::min(first, map_->numel() - 1));
  const auto elems = static_cast<std::int64_t>(std::ceil(view_.columns * view_.elems_per_px)) + 1;
  values_buffer_ = place.buffer;
  for (const MapRow& row : rows_) {
    if (row.what != MapRow::What::param_values) continue;
    values_[row.rank] =
        viz::read_values(*document.live, row.rank, place.buffer, {place.world, place.world + elems});
  }
}

std::optional<float> OwnershipPanel::value_at(const MapRow& row, const MapPlace& place) const {
  const auto values = values_.find(row.rank);
  if (values == values_.end() || place.buffer != values_buffer_) return std::nullopt;
  if (!values->second.world.contains(place.world)) return std::nullopt;
  const auto at = static_cast<std::size_t>(place.world - values->second.world.start);
  return row.what == MapRow::What::param_values ? values->second.params[at] : values->second.gradients[at];
}

void OwnershipPanel::select_at(Document& document, const MapRow& row, const MapPlace& place) {
  Selection next = document.selection;
  next.bucket = place.bucket;
  switch (row.what) {
    case MapRow::What::header: break;
    case MapRow::What::params:
    case MapRow::What::param_values:
    case MapRow::What::gradient_values:
      next.param = place.param;
      next.element = place.param ? std::optional(place.element) : std::nullopt;
      if (row.what != MapRow::What::params) next.rank = row.rank;
      break;
    case MapRow::What::owners:
      if (sharded_) next.rank = place.rank;
      break;
    case MapRow::What::state: next.rank = row.rank; break;
  }
  document.selection.set(next);
  seen_revision_ = document.selection.revision;  // what was clicked is in view
}

/// Brings a range into view: moves there, and zooms in where it would be too small to see.
void OwnershipPanel::show(const Range& axis) {
  constexpr double least_px = 12;
  const auto start = static_cast<double>(axis.start);
  const auto end = static_cast<double>(axis.end);
  if (static_cast<double>(axis.size()) / view_.elems_per_px < least_px) {
    const double margin = 3 * static_cast<double>(axis.size());
    view_ = fit_view(start - margin, end + margin, view_.columns, map_->numel());
  } else if (end <= view_.first || start >= view_.end()) {
    view_.first = (start + end) / 2 - view_.elems_per_px * view_.columns / 2;
    view_ = pan_view(view_, 0, map_->numel());
  }
}

void OwnershipPanel::show_selection(const Selection& selection) {
  const auto params = static_cast<int>(layout_->specs.size());
  const auto buckets = static_cast<int>(map_->buckets().size());
  if (selection.param && *selection.param >= 0 && *selection.param < params) {
    const Range axis = map_->param_axis(*selection.param);
    if (axis.empty()) return;
    show(axis);
    if (selection.element && axis.contains(axis.start + *selection.element)) {
      const auto at = static_cast<double>(axis.start + *selection.element);
      if (at < view_.first || at >= view_.end()) view_.first = at - view_.elems_per_px * view_.columns / 2;
      view_ = pan_view(view_, 0, map_->numel());
    }
  } else if (selection.bucket && *selection.bucket >= 0 && *selection.bucket < buckets) {
    show(map_->bucket(*selection.bucket).axis);
  }
}

}  // namespace

std::unique_ptr<Panel> make_ownership_panel() {
  return std::make_unique<OwnershipPanel>();
}

}  // namespace zero1::viz
