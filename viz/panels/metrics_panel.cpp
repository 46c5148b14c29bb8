// Loss, gradient norm, learning rate and time per iteration, as curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "viz/model/event_index.h"
#include "viz/model/live_run.h"
#include "viz/panels/draw.h"
#include "viz/panels/panel.h"

namespace zero1::viz {

namespace {

/// One figure per iteration; NaN where there is none.
struct Curve {
  const char* title;
  const char* unit;
  std::vector<double> values;
};

struct Bounds {
  double least = 0;
  double most = 1;
};

Bounds bounds_of(const std::vector<double>& values) {
  Bounds bounds{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    bounds.least = std::min(bounds.least, value);
    bounds.most = std::max(bounds.most, value);
  }
  if (bounds.least > bounds.most) return {};
  if (bounds.least == bounds.most) {
    const double room = bounds.least == 0 ? 1 : std::abs(bounds.least) * 0.1;
    return {bounds.least - room, bounds.most + room};
  }
  return bounds;
}

class MetricsPanel final : public Panel {
 public:
  std::string_view title() const override { return "Metrics"; }
  void draw(Document& document, const Theme& theme) override;
  std::string_view help() const override {
    return "hover  the figures of one iteration\nclick  select the iteration";
  }

 private:
  void collect(const Document& document);
  void draw_curve(Document& document, const Theme& theme, const Curve& curve, float height);
  void draw_line(ImDrawList& list, const Curve& curve, const Box& box, ImU32 colour) const;

  std::vector<std::int64_t> steps_;  ///< numbers of the iterations, ascending
  std::vector<Curve> curves_;
  std::string note_;
};

void MetricsPanel::collect(const Document& document) {
  steps_.clear();
  curves_.clear();
  note_.clear();
  if (document.live != nullptr) {
    const auto metrics = document.live->metrics();
    curves_ = {{"loss", "", {}},
               {"gradient norm", "", {}},
               {"learning rate", "", {}},
               {"time per iteration", "ms", {}}};
    for (const StepMetrics& step : metrics) {
      steps_.push_back(step.step);
      curves_[0].values.push_back(step.loss);
      curves_[1].values.push_back(step.skipped ? std::nan("") : step.grad_norm);
      curves_[2].values.push_back(step.lr);
      curves_[3].values.push_back(step.ms);
    }
    return;
  }
  if (document.events == nullptr) return;
  curves_ = {{"time per iteration", "ms", {}}};
  for (const EventIndex::Step& step : document.events->steps()) {
    if (!steps_.empty() && step.step <= steps_.back()) continue;
    steps_.push_back(step.step);
    curves_[0].values.push_back(static_cast<double>(step.when.end_ns - step.when.start_ns) * 1e-6);
  }
  note_ =
      "A recording holds times only. Loss, norm and learning rate are in the file that `zero1 train "
      "--metrics FILE` writes, and shown live by `zero1_viz run`.";
}

void MetricsPanel::draw(Document& document, const Theme& theme) {
  collect(document);
  if (steps_.empty()) {
    ImGui::TextWrapped(document.events == nullptr ? "This is no run." : "No iteration has ended yet.");
    return;
  }
  const float gap = ImGui::GetStyle().ItemSpacing.y;
  const float note_px = note_.empty() ? 0 : 4.5F * ImGui::GetFontSize();
  const float room = ImGui::GetContentRegionAvail().y - note_px;
  const float height = std::clamp(room / static_cast<float>(curves_.size()) - gap, 5 * ImGui::GetFontSize(),
                                  11 * ImGui::GetFontSize());
  for (const Curve& curve : curves_) draw_curve(document, theme, curve, height);
  if (note_.empty()) return;
  ImGui::PushStyleColor(ImGuiCol_Text, theme.faint_text());
  ImGui::TextWrapped("%s", note_.c_str());
  ImGui::PopStyleColor();
}

/// One point per iteration, or least and most of those that share a pixel column.
void MetricsPanel::draw_line(ImDrawList& list, const Curve& curve, const Box& box, ImU32 colour) const {
  const Bounds bounds = bounds_of(curve.values);
  const auto count = curve.values.size();
  const auto y_of = [&](double value) {
    const double share = (value - bounds.least) / (bounds.most - bounds.least);
    return box.max.y - static_cast<float>(share) * box.height();
  };
  const auto x_of = [&](std::size_t i) {
    return count == 1 ? (box.min.x + box.max.x) / 2
                      : box.min.x + box.width() * static_cast<float>(i) / static_cast<float>(count - 1);
  };
  const std::size_t per_column =
      std::max<std::size_t>(1, count / static_cast<std::size_t>(std::max(1.0F, box.width())));
  std::optional<ImVec2> last;
  for (std::size_t i = 0; i < count; i += per_column) {
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (std::size_t k = i; k < std::min(i + per_column, count); ++k) {
      if (!std::isfinite(curve.values[k])) continue;
      least = std::min(least, curve.values[k]);
      most = std::max(most, curve.values[k]);
    }
    if (least > most) {
      last.reset();
      continue;
    }
    const ImVec2 at{x_of(i), y_of((least + most) / 2)};
    if (per_column > 1) list.AddLine({at.x, y_of(least)}, {at.x, y_of(most) - 1}, colour);
    if (last) list.AddLine(*last, at, colour, 1.5F);
    if (count <= 60) list.AddCircleFilled(at, 2.5F, colour);
    last = at;
  }
}

void MetricsPanel::draw_curve(Document& document, const Theme& theme, const Curve& curve, float height) {
  const float font = ImGui::GetFontSize();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size{std::max(ImGui::GetContentRegionAvail().x, 8 * font), height};
  ImGui::PushID(curve.title);
  ImGui::InvisibleButton("curve", size);
  ImGui::PopID();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const Bounds bounds = bounds_of(curve.values);
  const auto figure = [&](double value) { return fmt::format("{:.4g}", value); };
  const float axis_px =
      std::max(text_size(figure(bounds.most)).x, text_size(figure(bounds.least)).x) + 0.6F * font;
  const Box box{{at.x + axis_px, at.y + 1.5F * font}, {at.x + size.x - 4, at.y + size.y - 0.5F * font}};
  list.AddRectFilled(box.min, box.max, mixed(theme.background(), theme.text(), 0.03F));
  list.AddRect(box.min, box.max, theme.grid());
  const auto right = [&](float y, const std::string& text) {
    draw_text(list, {box.min.x - text_size(text).x - 0.3F * font, y}, theme.faint_text(), text);
  };
  right(box.min.y - 0.2F * font, figure(bounds.most));
  right(box.max.y - font, figure(bounds.least));
  const std::string last =
      fmt::format("{}{}{}", figure(curve.values.back()), *curve.unit ? " " : "", curve.unit);
  draw_text(list, {box.min.x, at.y}, theme.text(), curve.title);
  draw_text(list, {box.max.x - text_size(last).x, at.y}, theme.text(), last);
  list.PushClipRect(box.min, {box.max.x + 3, box.max.y + 3}, true);
  const Box inner{{box.min.x + 4, box.min.y + 4}, {box.max.x - 4, box.max.y - 4}};
  draw_line(list, curve, inner, theme.dark ? IM_COL32(120, 180, 255, 255) : IM_COL32(20, 90, 190, 255));
  const auto count = steps_.size();
  const auto mark = [&](std::size_t i, ImU32 colour) {
    const float share = count == 1 ? 0.5F : static_cast<float>(i) / static_cast<float>(count - 1);
    const float x = inner.min.x + inner.width() * share;
    list.AddLine({x, box.min.y}, {x, box.max.y}, colour);
  };
  if (document.selection.step) {
    const auto found = std::lower_bound(steps_.begin(), steps_.end(), *document.selection.step);
    if (found != steps_.end() && *found == *document.selection.step) {
      mark(static_cast<std::size_t>(found - steps_.begin()), theme.selected());
    }
  }
  if (ImGui::IsItemHovered()) {
    const float share = std::clamp((ImGui::GetIO().MousePos.x - inner.min.x) / inner.width(), 0.0F, 1.0F);
    const auto i = static_cast<std::size_t>(std::lround(share * static_cast<float>(count - 1)));
    mark(i, theme.faint_text());
    std::string told = fmt::format("iteration {}", steps_[i]);
    for (const Curve& each : curves_) {
      told += fmt::format("\n{}: {} {}", each.title, figure(each.values[i]), each.unit);
    }
    ImGui::SetTooltip("%s", told.c_str());
    if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) {
      Selection next = document.selection;
      next.step = static_cast<int>(steps_[i]);
      document.selection.set(next);
    }
  }
  list.PopClipRect();
}

}  // namespace

std::unique_ptr<Panel> make_metrics_panel() {
  return std::make_unique<MetricsPanel>();
}

}  // namespace zero1::viz
