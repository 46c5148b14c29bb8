#include "viz/panels/ownership_bands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "core/layout/svg_paint.h"
#include "viz/panels/piece_style.h"

namespace zero1::viz {

namespace {

constexpr float least_outlined_px = 4;  // narrower pieces are drawn without a gap between them

float font_px() {
  return ImGui::GetFontSize();
}

/// A filled piece, with a hairline of background at its right end where it is wide enough.
void fill_piece(const MapScene& scene, const Box& box, ImU32 colour) {
  const float gap = box.width() >= least_outlined_px ? 1.0F : 0.0F;
  scene.list.AddRectFilled(box.min, {box.max.x - gap, box.max.y}, colour);
}

/// Whether the last step's changes are marked: where they concern everything there is nothing to tell apart.
bool marks_changes(const MapScene& scene) {
  const Change& change = scene.document.change;
  return !change.empty() && change.params.size() < scene.map.layout().specs.size();
}

void mark_changed(const MapScene& scene, const Box& box) {
  scene.list.AddRect({box.min.x + 1, box.min.y + 1}, {box.max.x - 1, box.max.y - 1}, scene.theme.changed(), 0,
                     0, 2);
}

/// Three shades, so that neighbours differ where every second parameter is too small to be seen.
ImU32 param_colour(const Theme& theme, int param) {
  const float shade = (theme.dark ? 0.20F : 0.10F) + 0.07F * static_cast<float>(param % 3);
  return mixed(theme.background(), theme.text(), shade);
}

void fill_padding(const MapScene& scene, const Box& box) {
  scene.list.AddRectFilled(box.min, box.max, mixed(scene.theme.background(), scene.theme.padding(), 0.12F));
  draw_hatching(scene.list, box, faded(scene.theme.padding(), 0.8F), 0.45F * font_px());
}

/// "bucket 3 · 1.2M elements", or as much of it as fits.
void label_bucket(const MapScene& scene, const Box& box, int bucket) {
  const std::string count = svg::short_count(scene.map.bucket(bucket).axis.size());
  const std::string texts[] = {fmt::format("bucket {} · {} elements", bucket, count),
                               fmt::format("bucket {} · {}", bucket, count), fmt::format("bucket {}", bucket),
                               fmt::format("{}", bucket)};
  for (const std::string& text : texts) {
    if (draw_label(scene.list, box, scene.theme.text(), text)) return;
  }
}

/// What lies under a state's label: hatched pieces are mixed with the background.
ImU32 state_fill(const Theme& theme, PieceState state) {
  const ImU32 colour = piece_colour(state, theme);
  if (!piece_hatched(state)) return colour;
  const bool under_way = state == PieceState::reducing || state == PieceState::gathering;
  return mixed(theme.background(), colour, under_way ? 0.7F : 0.35F);
}

/// The state's words that fit: "accumulating 3/12", "accumulating", "3/12".
void label_state(const MapScene& scene, const Box& box, PieceState state, const BucketMoment& moment) {
  const std::string counts =
      moment.golden > 0 ? fmt::format("{}/{}", moment.ready, moment.golden) : fmt::format("{}", moment.ready);
  const ImU32 colour = Theme::text_on(state_fill(scene.theme, state));
  const std::string state_name(name(state));
  if (state == PieceState::accumulating) {
    if (draw_label(scene.list, box, colour, state_name + " " + counts)) return;
    draw_label(scene.list, box, colour, counts);
    return;
  }
  draw_label(scene.list, box, colour, state_name);
}

void fill_state(const MapScene& scene, const Box& box, PieceState state, const BucketMoment& moment) {
  fill_piece(scene, box, state_fill(scene.theme, state));
  if (piece_hatched(state)) {
    const ImU32 colour = faded(piece_colour(state, scene.theme), 0.9F);
    draw_hatching(scene.list, box, colour, 0.5F * font_px());
  }
  if (state == PieceState::accumulating && moment.golden > 0) {
    const float share = std::min(1.0F, static_cast<float>(moment.ready) / static_cast<float>(moment.golden));
    const ImU32 done = piece_colour(PieceState::ready, scene.theme);
    scene.list.AddRectFilled({box.min.x, box.max.y - 0.25F * box.height()},
                             {box.min.x + share * box.width(), box.max.y}, done);
  }
}

}  // namespace

void MapPainter::draw_row(const MapScene& scene, const MapRow& row) {
  switch (row.what) {
    case MapRow::What::header: return draw_header(scene, row);
    case MapRow::What::params: return draw_params(scene, row);
    case MapRow::What::owners: return draw_owners(scene, row);
    case MapRow::What::state: return draw_states(scene, row);
    case MapRow::What::param_values:
    case MapRow::What::gradient_values: return draw_values(scene, row);
  }
}

void MapPainter::draw_header(const MapScene& scene, const MapRow& row) {
  scene.map.pieces(Band::buckets, scene.view, pieces_);
  const float stripe = std::max(2.0F, 0.22F * font_px());
  for (const MapPiece& piece : pieces_) {
    Box box = scene.box(row, piece.begin_px, piece.end_px);
    const ImU32 colour = piece.merged() ? scene.theme.faint_text() : scene.theme.bucket(piece.index);
    fill_piece(scene, {{box.min.x, box.max.y - stripe}, box.max}, colour);
    box.max.y -= stripe;
    if (piece.merged()) {
      draw_label(scene.list, box, scene.theme.faint_text(), fmt::format("{} buckets", piece.count));
    } else {
      label_bucket(scene, box, piece.index);
    }
  }
}

void MapPainter::draw_params(const MapScene& scene, const MapRow& row) {
  scene.map.pieces(Band::params, scene.view, pieces_);
  const Theme& theme = scene.theme;
  const bool marked = marks_changes(scene);
  for (const MapPiece& piece : pieces_) {
    const Box box = scene.box(row, piece.begin_px, piece.end_px);
    if (piece.merged()) {
      scene.list.AddRectFilled(box.min, box.max, mixed(theme.background(), theme.text(), 0.28F));
      const ImU32 text = mixed(theme.background(), theme.text(), 0.85F);
      draw_label(scene.list, box, text, fmt::format("{} parameters", piece.count));
      continue;
    }
    if (piece.index < 0) {
      fill_padding(scene, box);
      continue;
    }
    fill_piece(scene, box, param_colour(theme, piece.index));
    const std::string& param = scene.map.layout().specs[static_cast<std::size_t>(piece.index)].name;
    draw_label(scene.list, box, theme.text(), fitting_name(param, box.width() - 6));
    if (marked && scene.document.change.params.contains(piece.index)) mark_changed(scene, box);
  }
}

void MapPainter::draw_owners(const MapScene& scene, const MapRow& row) {
  if (!scene.sharded) return draw_all_own(scene, row);
  scene.map.pieces(Band::owners, scene.view, pieces_);
  const std::optional<int>& chosen = scene.document.selection.rank;
  for (const MapPiece& piece : pieces_) {
    const Box box = scene.box(row, piece.begin_px, piece.end_px);
    if (piece.several_buckets) {
      scene.list.AddRectFilled(box.min, box.max,
                               mixed(scene.theme.background(), scene.theme.faint_text(), 0.4F));
      draw_label(scene.list, box, scene.theme.text(), fmt::format("{} shards: zoom in", piece.count));
      continue;
    }
    ImU32 colour = scene.theme.rank(piece.index, scene.map.max_ranks());
    if (chosen && *chosen != piece.index) colour = mixed(scene.theme.background(), colour, 0.45F);
    const ImU32 text = Theme::text_on(colour);
    fill_piece(scene, box, colour);
    if (piece.merged() || draw_label(scene.list, box, text, fmt::format("rank {}", piece.index))) continue;
    draw_label(scene.list, box, text, fmt::format("{}", piece.index), 1);
  }
}

/// Without the distributed optimizer.
void MapPainter::draw_all_own(const MapScene& scene, const MapRow& row) {
  scene.map.pieces(Band::buckets, scene.view, pieces_);
  const ImU32 colour = mixed(scene.theme.background(), scene.theme.faint_text(), 0.3F);
  for (const MapPiece& piece : pieces_) {
    const Box box = scene.box(row, piece.begin_px, piece.end_px);
    fill_piece(scene, box, colour);
    if (!draw_label(scene.list, box, scene.theme.text(), "every rank"))
      draw_label(scene.list, box, scene.theme.text(), "all");
  }
}

void MapPainter::draw_states(const MapScene& scene, const MapRow& row) {
  if (scene.states == nullptr) return;
  scene.map.pieces(Band::buckets, scene.view, pieces_);
  const std::int64_t now = scene.document.moment.at_ns;
  const bool marked = marks_changes(scene);
  for (const MapPiece& piece : pieces_) {
    const Box box = scene.box(row, piece.begin_px, piece.end_px);
    const BucketMoment moment = scene.states->at(row.rank, piece.bucket, now);
    fill_state(scene, box, moment.others, moment);
    const Change& change = scene.document.change;
    const bool changed = marked && change.from_ns < moment.since_ns && moment.since_ns <= change.to_ns;
    Box own = box;
    const bool has_shard = row.rank < scene.map.bucket(piece.bucket).ranks;
    if (!piece.merged() && has_shard && moment.own != moment.others) {
      const Range shard = scene.map.shard_axis(piece.bucket, row.rank);
      own.min.x = std::clamp(std::floor(scene.x_of(shard.start)), box.min.x, box.max.x);
      own.max.x =
          std::clamp(std::max(std::floor(scene.x_of(shard.end)), own.min.x + 1), box.min.x, box.max.x);
      if (own.width() > 0) {
        fill_state(scene, own, moment.own, moment);
        label_state(scene, own, moment.own, moment);
      }
      // The wider side of the other shards tells their state.
      Box rest = box;
      if (own.min.x - box.min.x > box.max.x - own.max.x) {
        rest.max.x = own.min.x;
      } else {
        rest.min.x = own.max.x;
      }
      label_state(scene, rest, moment.others, moment);
      if (changed) mark_changed(scene, box);
      continue;
    }
    label_state(scene, box, moment.own, moment);
    if (changed) mark_changed(scene, box);
  }
}

void MapPainter::draw_values(const MapScene& scene, const MapRow& row) {
  if (!scene.value) return;
  const auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(scene.view.first)));
  const auto end = static_cast<std::int64_t>(
      std::min(std::ceil(scene.view.end()), static_cast<double>(scene.map.numel())));
  for (std::int64_t axis = first; axis < end; ++axis) {
    const Box cell{{std::max(scene.x_of(axis), scene.left), row.top},
                   {std::min(scene.x_of(axis + 1), scene.right), row.bottom}};
    scene.list.AddLine({cell.max.x, cell.min.y}, cell.max, scene.theme.grid());
    const MapPlace place = scene.map.place_at(axis);
    if (!place.param) continue;
    const std::optional<float> value = scene.value(row, place);
    if (!value) continue;
    const ImU32 colour = place.rank == row.rank ? scene.theme.text() : scene.theme.faint_text();
    if (!draw_label(scene.list, cell, colour, fmt::format("{:.6g}", *value))) {
      draw_label(scene.list, cell, colour, fmt::format("{:.2g}", *value));
    }
  }
}

void MapPainter::draw_minimap(const MapScene& scene, const Box& box) {
  MapView whole;
  whole.columns = std::max(1, static_cast<int>(box.width()));
  whole.elems_per_px =
      static_cast<double>(std::max<std::int64_t>(scene.map.numel(), 1)) / static_cast<double>(whole.columns);
  scene.map.pieces(Band::buckets, whole, pieces_);
  for (const MapPiece& piece : pieces_) {
    const Box part{{box.min.x + static_cast<float>(piece.begin_px), box.min.y},
                   {box.min.x + static_cast<float>(piece.end_px), box.max.y}};
    const ImU32 colour = piece.merged() ? scene.theme.faint_text() : scene.theme.bucket(piece.index);
    fill_piece(scene, part, mixed(scene.theme.background(), colour, 0.45F));
  }
  const double scale = 1 / whole.elems_per_px;
  const float from = box.min.x + static_cast<float>(scene.view.first * scale);
  const float to = std::max(from + 3, box.min.x + static_cast<float>(scene.view.end() * scale));
  const ImU32 shade = faded(scene.theme.background(), 0.6F);
  scene.list.AddRectFilled(box.min, {std::max(from, box.min.x), box.max.y}, shade);
  scene.list.AddRectFilled({std::min(to, box.max.x), box.min.y}, box.max, shade);
  scene.list.AddRect({std::max(from, box.min.x), box.min.y}, {std::min(to, box.max.x), box.max.y},
                     scene.theme.selected(), 0, 0, 1.5F);
}

void MapPainter::draw_selection(const MapScene& scene, const std::vector<MapRow>& rows) {
  const Selection& selection = scene.document.selection;
  if (rows.empty()) return;
  const auto outline = [&](Range axis, const MapRow& row) {
    const float from = std::max(scene.x_of(axis.start), scene.left - 2);
    const float to = std::min(std::max(scene.x_of(axis.end), scene.x_of(axis.start) + 3), scene.right + 2);
    if (to <= from) return;
    scene.list.AddRect({from, row.top}, {to, row.bottom}, scene.theme.background(), 0, 0, 4);
    scene.list.AddRect({from, row.top}, {to, row.bottom}, scene.theme.selected(), 0, 0, 2);
  };
  const int params = static_cast<int>(scene.map.layout().specs.size());
  const int buckets = static_cast<int>(scene.map.buckets().size());
  // A selection may come from an event of a damaged recording.
  const auto within = [](const std::optional<int>& index, int count) {
    return index && *index >= 0 && *index < count;
  };
  const bool has_param = within(selection.param, params);
  const bool has_bucket = within(selection.bucket, buckets);
  for (const MapRow& row : rows) {
    if (row.what == MapRow::What::header && has_bucket)
      outline(scene.map.bucket(*selection.bucket).axis, row);
    if (row.what == MapRow::What::params && has_param) outline(scene.map.param_axis(*selection.param), row);
    if (row.what == MapRow::What::owners && scene.sharded && has_bucket &&
        within(selection.rank, scene.map.bucket(*selection.bucket).ranks)) {
      outline(scene.map.shard_axis(*selection.bucket, *selection.rank), row);
    }
  }
  if (has_param && selection.element) {
    const std::int64_t at = scene.map.param_axis(*selection.param).start + *selection.element;
    const float from = scene.x_of(at);
    const float to = std::max(scene.x_of(at + 1), from + 2);
    if (to < scene.left || from > scene.right) return;
    scene.list.AddRect({from, rows.front().top}, {to, rows.back().bottom}, scene.theme.selected(), 0, 0,
                       1.5F);
  }
}

}  // namespace zero1::viz
