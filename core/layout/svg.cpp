#include "core/layout/svg.h"

#include <algorithm>

#include "core/base/units.h"
#include "core/layout/svg_bands.h"
#include "core/layout/svg_paint.h"
#include "core/layout/svg_tiles.h"

namespace zero1 {
namespace {

using svg::Canvas;

constexpr double margin_px = 24;
constexpr double row_label_px = 84;
constexpr double title_height_px = 66;
constexpr double heading_height_px = 34;
constexpr double buffer_gap_px = 12;
constexpr double legend_height_px = 46;
constexpr int least_width_px = 400;

double padding_percent(const Layout& layout, int buffer) {
  std::int64_t used = 0;
  for (const ParamLocation& location : layout.locations) {
    if (location.buffer == buffer) used += location.world.size();
  }
  const std::int64_t numel = at(layout.buffers, buffer).numel;
  return numel == 0 ? 0 : 100 * static_cast<double>(numel - used) / static_cast<double>(numel);
}

class OwnershipMap {
 public:
  OwnershipMap(const Layout& layout, const SvgOptions& options)
      : layout_(layout), options_(options), width_(std::max(options.width_px, least_width_px)) {
    for (const BufferLayout& buffer : layout.buffers) {
      plans_.push_back(svg::plan_tiles(buffer, line_px()));
    }
  }

  std::string draw() {
    const double height = total_height();
    canvas_.raw(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" role=\"img\">\n",
        width_, height);
    canvas_.raw("<title>{}</title>\n{}", svg::escaped(title()), svg::definitions());
    canvas_.rect({0.5, 0.5, width_ - 1, height - 1}, "rx=\"10\" class=\"card\"");
    canvas_.text(margin_px, 34, "font-size=\"18\" font-weight=\"600\"", title());
    canvas_.text(
        margin_px, 54, "font-size=\"12\" class=\"muted\"",
        "Each bucket is cut into equal contiguous shards, one per rank: a rank owns one interval of every "
        "bucket, and a parameter may be split.");
    double top = title_height_px;
    for (std::size_t b = 0; b < plans_.size(); ++b) {
      draw_buffer(b, top);
      top += buffer_height(b);
    }
    draw_legend(top);
    canvas_.raw("</svg>\n");
    return canvas_.take();
  }

 private:
  double line_px() const { return width_ - 2 * margin_px - row_label_px; }
  std::string title() const { return options_.title.empty() ? "Who owns what" : options_.title; }

  double buffer_height(std::size_t b) const {
    return heading_height_px + plans_[b].lines * svg::line_part::height + buffer_gap_px;
  }

  double total_height() const {
    double height = title_height_px + legend_height_px;
    for (std::size_t b = 0; b < plans_.size(); ++b) height += buffer_height(b);
    return height;
  }

  void draw_buffer(std::size_t b, double top) {
    const BufferLayout& buffer = layout_.buffers[b];
    canvas_.raw(
        "<text x=\"{:.0f}\" y=\"{:.2f}\" font-size=\"13\"><tspan font-weight=\"600\">Buffer {}</tspan> ",
        margin_px, top + 20, b);
    canvas_.raw(
        "<tspan class=\"muted\" dx=\"6\">{} parameters · {} gradients · {} · {} · {}, {:.3g}% "
        "padding</tspan></text>\n",
        name(buffer.param_dtype), name(buffer.grad_dtype),
        counted(buffer.dp_size, buffer.expert_parallel ? "expert-parallel rank" : "rank"),
        counted(buffer.buckets.size(), "bucket"), counted(buffer.numel, "element"),
        padding_percent(layout_, static_cast<int>(b)));
    const double lines_top = top + heading_height_px;
    for (int line = 0; line < plans_[b].lines; ++line)
      draw_row_labels(lines_top + line * svg::line_part::height);
    svg::Line line;
    for (const svg::Tile& tile : plans_[b].tiles) {
      const double line_top = lines_top + tile.line * svg::line_part::height;
      if (tile.x_px == 0) line = {margin_px + row_label_px, line_top, line_px(), 0};
      svg::draw_tile(canvas_, layout_, buffer, tile, line);
    }
  }

  void draw_row_labels(double top) {
    using namespace svg::line_part;
    const std::string_view style = "font-size=\"11\" class=\"muted\"";
    canvas_.text(margin_px, top + params_top + band_height / 2 + 4, style, "parameters");
    canvas_.text(margin_px, top + owners_top + band_height / 2 + 4, style, "owner");
    canvas_.text(margin_px, top + axis_baseline, style, "element");
  }

  void draw_legend(double top) {
    canvas_.line(margin_px, top, width_ - margin_px, top, "class=\"axis\" stroke-opacity=\".5\"");
    double x = margin_px;
    const double y = top + 16;
    const auto entry = [&](std::string_view attributes, std::string_view label) {
      canvas_.rect({x, y, 16, 12}, attributes);
      canvas_.text(x + 22, y + 10, "font-size=\"11\"", label);
      x += 22 + svg::text_px(label, 11) + 16;
    };
    entry("class=\"param odd\"", "parameter");
    const bool shared = std::any_of(layout_.specs.begin(), layout_.specs.end(),
                                    [](const ParamSpec& spec) { return spec.shared_embedding; });
    if (shared) entry("class=\"param shared\"", "shared embedding");
    entry("fill=\"url(#pad)\"", "padding");

    // Few ranks and many have palettes of their own; buffers of experts may have few beside many.
    std::int64_t few = 0;
    std::int64_t many = 0;
    for (const BufferLayout& buffer : layout_.buffers) {
      std::int64_t& ranks = buffer.dp_size <= svg::most_ranks_told_apart ? few : many;
      ranks = std::max<std::int64_t>(ranks, buffer.dp_size);
    }
    for (std::int64_t rank = 0; rank < few; ++rank) {
      entry(fmt::format("fill=\"{}\"", svg::rank_colour(rank, few).fill), fmt::format("rank {}", rank));
    }
    if (many > 0) draw_ramp(x, y, many);
  }

  void draw_ramp(double x, double y, std::int64_t ranks) {
    canvas_.text(x, y + 10, "font-size=\"11\"", "rank 0");
    x += svg::text_px("rank 0", 11) + 6;
    constexpr int steps = 24;
    for (int i = 0; i < steps; ++i, x += 6) {
      canvas_.rect({x, y, 6.2, 12}, fmt::format("fill=\"{}\"", svg::rank_colour(i, steps).fill));
    }
    canvas_.text(x + 6, y + 10, "font-size=\"11\"", fmt::format("rank {}", format_count(ranks - 1)));
  }

  const Layout& layout_;
  const SvgOptions& options_;
  const double width_;
  std::vector<svg::TilePlan> plans_;
  Canvas canvas_;
};

}  // namespace

std::string ownership_svg(const Layout& layout, const SvgOptions& options) {
  return OwnershipMap(layout, options).draw();
}

}  // namespace zero1
