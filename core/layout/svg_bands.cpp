#include "core/layout/svg_bands.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "core/layout/owners.h"

namespace zero1::svg {
namespace {

constexpr double label_font_px = 11;
constexpr double tick_font_px = 10;
constexpr double tick_room_px = 60;
constexpr double least_tick_room_px = 36;  ///< a label may stick out of a small tile this far
constexpr double least_mark_px = 2;        ///< parameters narrower than this are merged
constexpr double least_rank_px = 3;        ///< ranks narrower than this are merged
constexpr double least_shaded_px = 8;      ///< wider parameters alternate between two shades
constexpr double least_visible_px = 0.4;   ///< padding narrower than this is not drawn
constexpr std::size_t most_params_in_tooltip = 6;

std::string shown_ranks(const Range& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.start);
  return fmt::format("ranks {}–{}", ranks.start, ranks.end - 1);
}

/// The longest form of a dotted name that fits: all of it, its last parts ("linear_qkv.weight"), the module
/// alone ("linear_qkv"), or the end of that ("qkv"). Empty if none does.
std::string fitting_name(std::string_view name, double room_px) {
  const auto fits = [&](std::string_view text) { return text_px(text, label_font_px) <= room_px; };
  std::string_view rest = name;
  for (std::size_t dot = rest.find('.'); !fits(rest); dot = rest.find('.')) {
    // "weight" alone would not say which.
    if (dot == std::string_view::npos || rest.find('.', dot + 1) == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (fits(rest)) return std::string(rest);
  rest = rest.substr(0, rest.find('.'));
  if (!fits(rest)) rest.remove_prefix(rest.rfind('_') + 1);
  return fits(rest) ? std::string(rest) : "";
}

/// Draws one tile that holds one bucket, or the outline of one that holds several.
class TilePainter {
 public:
  TilePainter(Canvas& canvas, const Layout& layout, const BufferLayout& buffer, const Tile& tile, Line& line)
      : canvas_(canvas),
        layout_(layout),
        buffer_(buffer),
        tile_(tile),
        bucket_(at(buffer.buckets, tile.first_bucket)),
        line_(line) {}

  void label() {
    std::string text = fmt::format("bucket {}", tile_.first_bucket);
    if (tile_.merged()) text = fmt::format("buckets {}–{}", tile_.first_bucket, tile_.end_bucket - 1);
    std::string with_size = fmt::format("{} · {}", text, counted(tile_.world.size(), "element"));
    const std::string number = fmt::format("{}", tile_.first_bucket);
    for (const std::string& form : {with_size, text, number}) {
      if (text_px(form, label_font_px) > tile_.width_px || (tile_.merged() && form == number)) continue;
      canvas_.text(line_.left + tile_.x_px, line_.top + line_part::label_baseline,
                   "font-size=\"11\" class=\"muted\"", form);
      return;
    }
  }

  void params() {
    const Canvas::Box band = box(tile_.world, line_part::params_top);
    if (tile_.merged()) return canvas_.rect(band, "class=\"param odd\"", merged_tooltip());
    canvas_.rect(band, "fill=\"url(#pad)\"",
                 fmt::format("padding in bucket {}: belongs to no parameter", tile_.first_bucket));
    const std::vector<int>& params = bucket_.params;
    for (std::size_t i = 0; i < params.size();) {
      std::size_t end = i + 1;
      // A run of small parameters becomes one mark, once it is wide enough to be seen.
      while (end < params.size() && width_of(params[i], params[end - 1]) < least_mark_px &&
             width_of(params[end], params[end]) < least_mark_px) {
        ++end;
      }
      draw_params(i, end);
      i = end;
    }
  }

  void owners() {
    const Canvas::Box band = box(tile_.world, line_part::owners_top);
    if (tile_.merged()) return canvas_.rect(band, "class=\"param\"", merged_tooltip());
    if (tile_.world.empty()) return;
    const double rank_px = tile_.width_px / buffer_.dp_size;
    const auto together =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(least_rank_px / rank_px)));
    for (std::int64_t rank = 0; rank < buffer_.dp_size; rank += together) {
      draw_owner({rank, std::min<std::int64_t>(rank + together, buffer_.dp_size)});
    }
    hatch_padding();
  }

  void axis() {
    const double y = line_.top + line_part::axis_top;
    canvas_.line(line_.left + tile_.x_px, y, line_.left + tile_.x_px + tile_.width_px, y, "class=\"axis\"");
    tick(tile_.world.start, tile_.width_px);
    if (tile_.world.empty()) return;
    const std::int64_t step = tick_step();
    const double last_label_px = tile_.x_px + tile_.width_px - tick_room_px;
    for (std::int64_t at = tile_.world.start / step * step; step > 0;) {
      if (__builtin_add_overflow(at, step, &at) || at >= tile_.world.end) break;
      if (tile_.x_of(at) < last_label_px) tick(at, tick_room_px);
    }
    canvas_.line(line_.left + tile_.x_px + tile_.width_px, y, line_.left + tile_.x_px + tile_.width_px, y + 4,
                 "class=\"axis\"");
  }

 private:
  Canvas::Box box(const Range& world, double part_top) const {
    const double x = tile_.world.empty() ? tile_.x_px : tile_.x_of(world.start);
    const double width = tile_.world.empty() ? tile_.width_px : tile_.x_of(world.end) - x;
    return {line_.left + x, line_.top + part_top, width, line_part::band_height};
  }

  const Range& world_of(int param) const { return at(layout_.locations, param).world; }
  const ParamSpec& spec_of(int param) const { return at(layout_.specs, param); }
  double width_of(int first, int last) const {
    return static_cast<double>(world_of(last).end - world_of(first).start) * tile_.px_per_elem();
  }

  std::string merged_tooltip() const {
    return fmt::format("buckets {}–{}, elements {}: too small to be drawn apart; each is cut into {}",
                       tile_.first_bucket, tile_.end_bucket - 1, format_range(tile_.world),
                       counted(buffer_.dp_size, "shard"));
  }

  /// Parameters [first, end) of the bucket as one mark.
  void draw_params(std::size_t first, std::size_t end) {
    const int param = bucket_.params[first];
    const int last = bucket_.params[end - 1];
    const Range world{world_of(param).start, world_of(last).end};
    const bool alone = end - first == 1;
    const ParamSpec& spec = spec_of(param);
    if (alone && world.empty()) return;
    Canvas::Box mark = box(world, line_part::params_top);
    mark.width = std::max(mark.width, least_visible_px);
    const std::string tooltip =
        alone ? fmt::format("{}\nshape [{}], {}\nelements {} of the buffer, bucket {}\nowned by {}",
                            spec.name, fmt::join(spec.shape, ", "), counted(world.size(), "element"),
                            format_range(world), tile_.first_bucket, shown_ranks(owners_of(layout_, param)))
              : fmt::format("{} small parameters\nfrom {}\nto {}\nelements {} of the buffer", end - first,
                            spec.name, spec_of(last).name, format_range(world));
    const std::string_view shade = alone && spec.shared_embedding ? "shared" : odd_mark_ ? "odd" : "";
    if (mark.width >= least_shaded_px) odd_mark_ = !odd_mark_;
    canvas_.rect(mark, fmt::format("class=\"param {}\"", shade), tooltip);
    const std::string label = alone ? fitting_name(spec.name, mark.width - 5) : "";
    if (!label.empty()) band_text(mark, "", label);
  }

  void band_text(const Canvas::Box& mark, std::string_view attributes, std::string_view text) {
    canvas_.text(
        mark.x + mark.width / 2, mark.y + mark.height / 2 + 4,
        fmt::format("font-size=\"11\" text-anchor=\"middle\" pointer-events=\"none\" {}", attributes), text);
  }

  void draw_owner(const Range& ranks) {
    const std::int64_t shard = buffer_.shard_elems(tile_.first_bucket);
    const Range world = Range{ranks.start * shard, ranks.end * shard}.shifted(bucket_.world.start);
    const Canvas::Box mark = box(world, line_part::owners_top);
    const RankColour colour = rank_colour((ranks.start + ranks.end - 1) / 2, buffer_.dp_size);
    const bool bordered = mark.width > 6;
    canvas_.rect(mark,
                 fmt::format("fill=\"{}\"{}", colour.fill,
                             bordered ? " class=\"rank\"" : " shape-rendering=\"crispEdges\""),
                 owner_tooltip(ranks, world));
    if (ranks.size() > 1) return;
    // All ranks of a bucket have the same form of label, the longest that fits the largest number.
    for (const std::string_view form : {"rank {}", "{}"}) {
      const std::string widest = fmt::format(fmt::runtime(form), buffer_.dp_size - 1);
      if (text_px(widest, label_font_px) + 4 > mark.width) continue;
      return band_text(mark, colour.dark ? "class=\"on-dark\"" : "class=\"on-light\"",
                       fmt::format(fmt::runtime(form), ranks.start));
    }
  }

  std::string owner_tooltip(const Range& ranks, const Range& world) const {
    std::string text = fmt::format("{}, bucket {}\nelements {} of the buffer, {} in all", shown_ranks(ranks),
                                   tile_.first_bucket, format_range(world), format_count(world.size()));
    if (ranks.size() > 1) return text;
    const std::vector<int>& params = bucket_.params;
    auto param = std::partition_point(params.begin(), params.end(),
                                      [&](int each) { return world_of(each).end <= world.start; });
    std::size_t listed = 0;
    for (; param != params.end() && world_of(*param).start < world.end; ++param) {
      const Range part = intersect(world_of(*param), world);
      if (part.empty()) continue;
      if (++listed > most_params_in_tooltip) return text + "\n…";
      text +=
          fmt::format("\n{} {}", spec_of(*param).name, format_range(part.shifted(-world_of(*param).start)));
    }
    if (listed == 0) text += "\npadding only";
    return text;
  }

  /// Ranks own the padding in their shards, too; the hatching shows how much of them it is.
  void hatch_padding() {
    std::int64_t used_end = bucket_.world.start;
    const auto hatch = [&](std::int64_t end) {
      const Canvas::Box mark = box({used_end, end}, line_part::owners_top);
      if (mark.width >= least_visible_px) canvas_.rect(mark, "fill=\"url(#over)\" pointer-events=\"none\"");
    };
    for (const int param : bucket_.params) {
      if (world_of(param).start > used_end) hatch(world_of(param).start);
      used_end = std::max(used_end, world_of(param).end);
    }
    if (bucket_.world.end > used_end) hatch(bucket_.world.end);
  }

  /// A mark on the axis, with a label if there is room: the exact index where it fits into `room_px`.
  void tick(std::int64_t world_index, double room_px) {
    const double x = tile_.world.empty() ? tile_.x_px : tile_.x_of(world_index);
    const double y = line_.top + line_part::axis_top;
    canvas_.line(line_.left + x, y, line_.left + x, y + 4, "class=\"axis\"");
    std::string label = format_count(world_index);
    if (text_px(label, tick_font_px) > room_px) label = short_count(world_index);
    const double label_px = text_px(label, tick_font_px);
    const bool fits = label_px <= std::max(room_px, least_tick_room_px) && x + label_px <= line_.width + 16;
    if (x < line_.axis_free_from || !fits) return;
    canvas_.text(line_.left + x, line_.top + line_part::axis_baseline, "font-size=\"10\" class=\"muted\"",
                 label);
    line_.axis_free_from = x + label_px + 8;
  }

  /// The elements between two ticks: 1, 2 or 5 times a power of ten, some 100 px apart.
  std::int64_t tick_step() const {
    const double elems = 100 / tile_.px_per_elem();
    const double power = std::pow(10, std::floor(std::log10(std::max(1.0, elems))));
    for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
      if (factor * power >= elems && factor * power < 9e18) return static_cast<std::int64_t>(factor * power);
    }
    return tile_.world.size();
  }

  Canvas& canvas_;
  const Layout& layout_;
  const BufferLayout& buffer_;
  const Tile& tile_;
  const BucketLayout& bucket_;
  Line& line_;
  bool odd_mark_ = false;  ///< neighbours are told apart by two shades
};

}  // namespace

void draw_tile(Canvas& canvas, const Layout& layout, const BufferLayout& buffer, const Tile& tile,
               Line& line) {
  TilePainter painter(canvas, layout, buffer, tile, line);
  painter.label();
  painter.params();
  painter.owners();
  painter.axis();
}

}  // namespace zero1::svg
