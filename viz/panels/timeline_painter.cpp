#include "viz/panels/timeline_painter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "viz/model/event_fields.h"
#include "viz/model/event_words.h"

namespace zero1::viz {

namespace {

using trace::Kind;

constexpr int names_until = 12'000;  // primitives in a frame: later bars go without their names
constexpr int most_arrows = 800;

bool has_bucket_colour(const Summary& look) {
  return look.kind == Kind::collective_run || look.kind == Kind::collective_issue ||
         look.kind == Kind::grad_ready || look.kind == Kind::bucket_state;
}

/// The step of an axis: 1, 2 or 5 times a power of ten, at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

/// How much of a name there is room for.
enum class NameLength { whole, brief, number };

std::string name_of(const trace::Event& event, const trace::RunInfo& info, NameLength length) {
  if (event.kind == Kind::step || event.kind == Kind::microbatch) {
    const int number = event.kind == Kind::step ? event.step : event.microbatch;
    return length == NameLength::number ? std::to_string(number)
                                        : fmt::format("{} {}", name(event.kind), number);
  }
  if (event.layer >= 0) {
    if (length == NameLength::number) return std::to_string(event.layer);
    if (length == NameLength::brief) return layer_name(event.layer, info);
  } else if (length != NameLength::whole) {
    const std::string bucket = event.bucket >= 0 ? std::to_string(event.bucket) : "";
    return length == NameLength::number ? bucket : what_happened(event.kind, event.detail) + " " + bucket;
  }
  return what(event, info) + ((event.flags & trace::modelled_link) != 0 ? " (modelled link)" : "");
}

}  // namespace

void TimelinePainter::start_frame(const Theme& theme) {
  primitives_ = 0;
  if (ready_ && dark_ == theme.dark) return;
  ready_ = true;
  dark_ = theme.dark;
  buckets_.clear();
  const auto of = [](ImU32 fill) { return Paint{fill, Theme::text_on(fill)}; };
  for (int kind = 0; kind < 256; ++kind)
    kinds_[static_cast<std::size_t>(kind)] = of(theme.kind(static_cast<Kind>(kind)));
  exposed_ = of(theme.exposed());
  for (int bucket = -1; bucket < 256; ++bucket) buckets_.push_back(of(theme.bucket(bucket)));
}

const TimelinePainter::Paint& TimelinePainter::paint(const Summary& look) {
  if (look.kind == Kind::collective_wait && look.exposed) return exposed_;
  if (!has_bucket_colour(look)) return kinds_[static_cast<std::size_t>(look.kind)];
  const int bucket = std::max(look.bucket, -1);
  return buckets_[bucket < 0 ? 0 : static_cast<std::size_t>(1 + bucket % 256)];
}

void TimelinePainter::draw_lanes(ImDrawList& list, const TimelineScene& scene,
                                 std::span<const TimelineBar> bars) {
  // A stripe behind each rank's second lane, and a line above each rank.
  for (const TimelineLane& lane : scene.rows.lanes) {
    const float y0 = scene.y(lane.y0), y1 = scene.y(lane.y1);
    if (y1 < scene.lanes.min.y || y0 > scene.lanes.max.y) continue;
    if (lane.stream == trace::StreamId::communication) {
      list.AddRectFilled({scene.lanes.min.x, y0}, {scene.lanes.max.x, y1}, faded(scene.theme.grid(), 0.35F));
      ++primitives_;
    }
    if (lane.starts_rank) {
      list.AddLine({scene.lanes.min.x - scene.label_px, y0 - 4}, {scene.lanes.max.x, y0 - 4},
                   scene.theme.grid());
      ++primitives_;
    }
  }
  for (const TimelineBar& bar : bars) draw_bar(list, scene, bar);
  mark_changes(list, scene, bars);
  const Selection& selection = scene.document.selection;
  if (selection.event) outline(list, scene, scene.shown(*selection.event), scene.theme.selected());
  if (scene.hovered >= 0) outline(list, scene, scene.hovered, faded(scene.theme.selected(), 0.6F));
}

void TimelinePainter::draw_bar(ImDrawList& list, const TimelineScene& scene, const TimelineBar& bar) {
  const TimelineRow& row = scene.rows.rows[static_cast<std::size_t>(bar.row)];
  const float least_px = is_thin(row.row->level()) ? 2 : 1;
  Box box = scene.box_of(row, bar.x0, std::max(bar.x1, bar.x0 + least_px));
  // A hairline keeps neighbours apart.
  if (box.width() > 4) box.max.x -= 1;
  const Paint& colours = paint(bar.look);
  const Selection& selection = scene.document.selection;
  const bool others_selected = selection.bucket && !selection.event && bar.look.bucket >= 0;
  const bool pale = others_selected && bar.look.bucket != *selection.bucket;
  list.AddRectFilled(box.min, box.max, pale ? faded(colours.fill, 0.45F) : colours.fill);
  ++primitives_;
  if (bar.look.exposed && bar.look.kind != Kind::collective_wait) {
    list.AddRectFilled({box.min.x, box.max.y - box.height() / 3}, box.max, exposed_.fill);
    ++primitives_;
  }
  if (bar.look.kind == Kind::collective_wait && bar.look.bucket >= 0 && box.width() >= 3) {
    // Which bucket it waits for.
    Summary bucket = bar.look;
    bucket.kind = Kind::collective_run;
    list.AddRectFilled({box.min.x, box.max.y - 4}, box.max, paint(bucket).fill);
    ++primitives_;
  }
  if (bar.count == 1 && box.width() >= 12 && !is_thin(row.row->level()) && primitives_ < names_until)
    draw_name(list, scene, bar, box, pale ? scene.theme.text() : colours.text);
}

/// What the last step has changed; nothing where that is older than the view, and so not the last step's.
void TimelinePainter::mark_changes(ImDrawList& list, const TimelineScene& scene,
                                   std::span<const TimelineBar> bars) {
  constexpr int most_marks = 500;
  const Change& change = scene.document.change;
  if (change.empty()) return;
  const bool logical = scene.logical != nullptr;
  if (!logical && scene.view.x_of(static_cast<double>(change.from_ns)) < 0) return;
  const double from_x = scene.view.x_of(static_cast<double>(change.from_ns));
  const double to_x = scene.view.x_of(static_cast<double>(change.to_ns));
  int marks = 0;
  for (const TimelineBar& bar : bars) {
    const bool beside = !logical && (bar.x1 < from_x - 1 || bar.x0 > to_x + 1);
    if (beside || (bar.count > 1 && logical)) continue;
    if (bar.count == 1 && !change.contains(scene.document.events->event(scene.original(bar.event)))) continue;
    if (++marks > most_marks) return;
    const TimelineRow& row = scene.rows.rows[static_cast<std::size_t>(bar.row)];
    const Box box = scene.box_of(row, bar.x0, std::max(bar.x1, bar.x0 + 2));
    list.AddRect({box.min.x - 1, box.min.y - 1}, {box.max.x + 1, box.max.y + 1}, scene.theme.changed());
    ++primitives_;
  }
}

void TimelinePainter::draw_name(ImDrawList& list, const TimelineScene& scene, const TimelineBar& bar,
                                const Box& box, ImU32 colour) {
  const trace::Event event = scene.events.event(bar.event);
  const float font = ImGui::GetFontSize();
  for (const NameLength length : {NameLength::whole, NameLength::brief, NameLength::number}) {
    // Names that cannot fit are not even made: there are thousands of bars.
    if (box.width() < font * (length == NameLength::whole ? 4.5F : length == NameLength::brief ? 2 : 0))
      continue;
    const std::string name = name_of(event, scene.document.info, length);
    const ImVec2 size = text_size(name);
    if (name.empty() || size.x + 4 > box.width() || size.y > box.height() + 3) continue;
    draw_text(list, {box.min.x + (box.width() - size.x) / 2, box.min.y + (box.height() - size.y) / 2}, colour,
              name);
    primitives_ += static_cast<int>(name.size());
    return;
  }
}

void TimelinePainter::outline(ImDrawList& list, const TimelineScene& scene, EventId shown, ImU32 colour) {
  if (shown < 0) return;
  const int number = scene.rows.row_of(scene.events, shown);
  if (number < 0) return;
  const TimelineRow& row = scene.rows.rows[static_cast<std::size_t>(number)];
  const trace::Event event = scene.events.event(shown);
  const float x0 = scene.x(static_cast<double>(event.begin_ns)) - 1;
  const float x1 = std::max(scene.x(static_cast<double>(event.end_ns)), x0 + 3);
  list.AddRect({x0, scene.y(row.y0) - 1}, {x1, scene.y(row.y1) + 1}, colour, 0, 0, 2 * scene.theme.scale);
  ++primitives_;
}

void TimelinePainter::draw_arrows(ImDrawList& list, const TimelineScene& scene,
                                  std::span<const FlowArrow> arrows) {
  const auto row_middle = [&](EventId original) -> std::optional<float> {
    const int row = scene.rows.row_of(scene.events, scene.shown(original));
    if (row < 0) return {};
    const TimelineRow& place = scene.rows.rows[static_cast<std::size_t>(row)];
    return scene.y((place.y0 + place.y1) / 2);
  };
  const auto x_of = [&](EventId original, std::int64_t at_ns) {
    if (scene.logical == nullptr) return scene.x(static_cast<double>(at_ns));
    const trace::Event event = scene.events.event(scene.shown(original));
    return scene.x(static_cast<double>(event.begin_ns) + static_cast<double>(LogicalOrder::unit_ns) / 2);
  };
  int drawn = 0;
  for (const FlowArrow& arrow : arrows) {
    if (drawn == most_arrows) return;
    if (scene.shown(arrow.from) < 0 || scene.shown(arrow.to) < 0) continue;
    const float x0 = x_of(arrow.from, arrow.from_ns), x1 = x_of(arrow.to, arrow.to_ns);
    if (std::max(x0, x1) < scene.lanes.min.x || std::min(x0, x1) > scene.lanes.max.x) continue;
    const auto y0 = row_middle(arrow.from), y1 = row_middle(arrow.to);
    if (!y0 || !y1) continue;
    if (std::max(*y0, *y1) < scene.lanes.min.y || std::min(*y0, *y1) > scene.lanes.max.y) continue;
    ++drawn;
    // Colours of areas are too pale for lines on a light ground.
    const ImU32 ready =
        mixed(scene.theme.kind(Kind::grad_ready), scene.theme.text(), scene.theme.dark ? 0 : 0.45F);
    const ImU32 colour = arrow.readiness ? ready : scene.theme.text();
    const float head = 4 * scene.theme.scale;
    list.AddLine({x0, *y0}, {x1, *y1}, faded(colour, 0.8F), 1.2F * scene.theme.scale);
    const float length = std::max(1.0F, std::hypot(x1 - x0, *y1 - *y0));
    const ImVec2 along{(x1 - x0) / length * head, (*y1 - *y0) / length * head};
    list.AddTriangleFilled(
        {x1, *y1}, {x1 - along.x * 1.6F - along.y * 0.7F, *y1 - along.y * 1.6F + along.x * 0.7F},
        {x1 - along.x * 1.6F + along.y * 0.7F, *y1 - along.y * 1.6F - along.x * 0.7F}, colour);
    primitives_ += 2;
  }
}

void TimelinePainter::draw_marks(ImDrawList& list, const TimelineScene& scene) const {
  if (scene.measured) {
    const float x0 = scene.x(static_cast<double>(scene.measured->start_ns));
    const float x1 = scene.x(static_cast<double>(scene.measured->end_ns));
    list.AddRectFilled({x0, scene.lanes.min.y}, {x1, scene.lanes.max.y}, faded(scene.theme.changed(), 0.15F));
    for (const float x : {x0, x1})
      list.AddLine({x, scene.lanes.min.y}, {x, scene.lanes.max.y}, scene.theme.changed());
    const double length =
        static_cast<double>(scene.measured->end_ns) - static_cast<double>(scene.measured->start_ns);
    const std::string text = scene.logical == nullptr
                                 ? format_duration_ns(TimeView::to_ns(length))
                                 : fmt::format("{:.0f} events", length / LogicalOrder::unit_ns);
    const ImVec2 size = text_size(text);
    const ImVec2 at{(x0 + x1 - size.x) / 2, scene.lanes.min.y + 2};
    list.AddRectFilled({at.x - 3, at.y}, {at.x + size.x + 3, at.y + size.y}, scene.theme.background());
    draw_text(list, at, scene.theme.changed(), text);
  }
  const Moment& moment = scene.document.moment;
  if (moment.follow) return;
  double at_ns = static_cast<double>(moment.at_ns);
  if (scene.logical != nullptr) {
    const auto last = scene.document.events->last_at(moment.at_ns);
    const EventId shown = last ? scene.shown(*last) : -1;
    if (shown < 0) return;
    at_ns = static_cast<double>(scene.events.event(shown).end_ns);
  }
  const float x = scene.x(at_ns);
  list.AddLine({x, scene.lanes.min.y - 6}, {x, scene.lanes.max.y}, scene.theme.text(),
               1.5F * scene.theme.scale);
  const float head = 5 * scene.theme.scale;
  list.AddTriangleFilled({x - head, scene.lanes.min.y - 6 - head}, {x + head, scene.lanes.min.y - 6 - head},
                         {x, scene.lanes.min.y - 4}, scene.theme.text());
}

void TimelinePainter::draw_labels(ImDrawList& list, const TimelineScene& scene) const {
  const float left = scene.lanes.min.x - scene.label_px;
  const float font = ImGui::GetFontSize();
  list.PushClipRect({left, scene.lanes.min.y}, {scene.lanes.min.x - 2, scene.lanes.max.y}, true);
  for (const TimelineLane& lane : scene.rows.lanes) {
    const float y0 = scene.y(lane.y0), y1 = scene.y(lane.y1);
    if (y1 < scene.lanes.min.y || y0 > scene.lanes.max.y) continue;
    const float stream_y = std::max(y0, y0 + (y1 - y0 - font) / 2);
    const float rank_px = 2.2F * font;
    if (lane.starts_rank) {
      const ImU32 colour = scene.theme.rank(lane.rank, scene.events.ranks());
      const Box chip{{left + 2, y0}, {left + rank_px, y0 + font + 2}};
      list.AddRectFilled(chip.min, chip.max, colour, 3);
      const std::string name = fmt::format("{}{}", lane.folded ? "+" : "r", lane.rank);
      draw_text(list, {chip.min.x + 3, chip.min.y + 1}, Theme::text_on(colour), name);
      if (scene.document.selection.rank == lane.rank)
        list.AddRect({chip.min.x - 1, chip.min.y - 1}, {chip.max.x + 1, chip.max.y + 1},
                     scene.theme.selected(), 3, 0, 2);
    }
    draw_text(list,
              {left + rank_px + 6, lane.starts_rank ? std::max(y0, std::min(stream_y, y1 - font)) : stream_y},
              scene.theme.faint_text(), trace::name(lane.stream));
  }
  list.PopClipRect();
}

void TimelinePainter::draw_axis(ImDrawList& list, const TimelineScene& scene, const Box& box) {
  const double font = ImGui::GetFontSize();
  const bool logical = scene.logical != nullptr;
  const double unit = logical ? static_cast<double>(LogicalOrder::unit_ns) : 1;
  const double step = std::max(round_step(scene.view.ns_per_px() / unit * 8 * font), 1.0) * unit;
  const double first = std::ceil(scene.view.start_ns() / step);
  const double last = std::min(std::floor(scene.view.end_ns() / step), first + 1000);
  for (double i = first; i <= last; i += 1) {
    const double at = i * step + 0.0;  // no -0
    const float x = scene.x(at);
    list.AddLine({x, box.max.y - 4}, {x, scene.lanes.max.y}, faded(scene.theme.grid(), 0.8F));
    const std::string text = logical ? fmt::format("{:.0f}", at / unit) : time_label(at, step);
    draw_text(list, {x + 3, box.min.y}, scene.theme.faint_text(), text);
  }
  list.AddLine({box.min.x, box.max.y}, {box.max.x, box.max.y}, scene.theme.grid());
}

}  // namespace zero1::viz
