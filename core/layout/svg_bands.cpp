#include "core/layout/svg_bands.h"

#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "core/layout/owners.h"

namespace zero1::svg {
namespace {

constexpr double label_font_px = 11;
constexpr double least_mark_px = 2;       ///< parameters narrower than this are merged
constexpr double least_rank_px = 3;       ///< ranks narrower than this are merged
constexpr double least_visible_px = 0.4;  ///< padding narrower than this is not drawn
constexpr std::size_t most_params_in_tooltip = 6;

std::string shown(const Range& range) {
  return fmt::format("[{}, {})", format_count(range.start), format_count(range.end));
}

std::string shown_ranks(const Range& ranks) {
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.start);
  return fmt::format("ranks {}–{}", ranks.start, ranks.end - 1);
}

/// The longest form of a dotted name that fits: all of it, or its last parts. Empty if none does.
std::string fitting_name(std::string_view name, double room_px) {
  std::string_view rest = name;
  while (text_px(rest, label_font_px) > room_px) {
    const std::size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return "";
    rest.remove_prefix(dot + 1);
  }
  return std::string(rest);
}

/// Draws one tile that holds one bucket, or the outline of one that holds several.
class TilePainter {
 public:
  TilePainter(Canvas& canvas, const Layout& layout, const BufferLayout& buffer, const Tile& tile, double left,
              double top)
      : canvas_(canvas),
        layout_(layout),
        buffer_(buffer),
        tile_(tile),
        bucket_(buffer.buckets[static_cast<std::size_t>(tile.first_bucket)]),
        left_(left),
        top_(top) {}

  void label() {
    std::string text = fmt::format("bucket {}", tile_.first_bucket);
    if (tile_.merged()) text = fmt::format("buckets {}–{}", tile_.first_bucket, tile_.end_bucket - 1);
    std::string with_size = fmt::format("{} · {} elements", text, format_count(tile_.world.size()));
    const std::string number = fmt::format("{}", tile_.first_bucket);
    for (const std::string& form : {with_size, text, number}) {
      if (text_px(form, label_font_px) > tile_.width_px || (tile_.merged() && form == number)) continue;
      canvas_.text(left_ + tile_.x_px, top_ + line_part::label_baseline, "font-size=\"11\" class=\"muted\"",
                   form);
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

  void axis(double& free_from) {
    const double y = top_ + line_part::axis_top;
    canvas_.line(left_ + tile_.x_px, y, left_ + tile_.x_px + tile_.width_px, y, "class=\"axis\"");
    tick(tile_.world.start, format_count(tile_.world.start), free_from);
    if (tile_.world.empty()) return;
    const std::int64_t step = tick_step();
    const double last_label_px = tile_.x_px + tile_.width_px - 60;
    for (std::int64_t at = tile_.world.start / step * step; step > 0;) {
      if (__builtin_add_overflow(at, step, &at) || at >= tile_.world.end) break;
      if (tile_.x_of(at) < last_label_px) tick(at, short_count(at), free_from);
    }
    canvas_.line(left_ + tile_.x_px + tile_.width_px, y, left_ + tile_.x_px + tile_.width_px, y + 4,
                 "class=\"axis\"");
  }

 private:
  Canvas::Box box(const Range& world, double part_top) const {
    const double x = tile_.world.empty() ? tile_.x_px : tile_.x_of(world.start);
    const double width = tile_.world.empty() ? tile_.width_px : tile_.x_of(world.end) - x;
    return {left_ + x, top_ + part_top, width, line_part::band_height};
  }

  const Range& world_of(int param) const { return layout_.locations[static_cast<std::size_t>(param)].world; }
  const ParamSpec& spec_of(int param) const { return layout_.specs[static_cast<std::size_t>(param)]; }
  double width_of(int first, int last) const {
    return static_cast<double>(world_of(last).end - world_of(first).start) * tile_.px_per_elem();
  }

  std::string merged_tooltip() const {
    return fmt::format("buckets {}–{}, elements {}: too small to be drawn apart; each is cut into {} shards",
                       tile_.first_bucket, tile_.end_bucket - 1, shown(tile_.world), buffer_.dp_size);
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
        alone ? fmt::format("{}\nshape [{}], {} elements\nelements {} of the buffer, bucket {}\nowned by {}",
                            spec.name, fmt::join(spec.shape, ", "), format_count(world.size()), shown(world),
                            tile_.first_bucket, shown_ranks(owners_of(layout_, param)))
              : fmt::format("{} small parameters\nfrom {}\nto {}\nelements {} of the buffer", end - first,
                            spec.name, spec_of(last).name, shown(world));
    const std::string_view shade = alone && spec.shared_embedding ? "shared" : first % 2 == 1 ? "odd" : "";
    canvas_.rect(mark, fmt::format("class=\"param {}\"", shade), tooltip);
    const std::string label = alone ? fitting_name(spec.name, mark.width - 8) : "";
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
    canvas_.rect(mark, fmt::format("fill=\"{}\"{}", colour.fill, bordered ? " class=\"rank\"" : ""),
                 owner_tooltip(ranks, world));
    if (ranks.size() > 1) return;
    const std::string number = fmt::format("{}", ranks.start);
    for (const std::string& form : {"rank " + number, number}) {
      if (text_px(form, label_font_px) + 4 > mark.width) continue;
      return band_text(mark, colour.dark ? "class=\"on-dark\"" : "class=\"on-light\"", form);
    }
  }

  std::string owner_tooltip(const Range& ranks, const Range& world) const {
    std::string text = fmt::format("{}, bucket {}\nelements {} of the buffer, {} in all", shown_ranks(ranks),
                                   tile_.first_bucket, shown(world), format_count(world.size()));
    if (ranks.size() > 1) return text;
    const std::vector<int>& params = bucket_.params;
    auto param = std::partition_point(params.begin(), params.end(),
                                      [&](int each) { return world_of(each).end <= world.start; });
    std::size_t listed = 0;
    for (; param != params.end() && world_of(*param).start < world.end; ++param) {
      const Range part = intersect(world_of(*param), world);
      if (part.empty()) continue;
      if (++listed > most_params_in_tooltip) return text + "\n…";
      text += fmt::format("\n{} {}", spec_of(*param).name, shown(part.shifted(-world_of(*param).start)));
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

  void tick(std::int64_t world_index, const std::string& label, double& free_from) {
    const double x = tile_.world.empty() ? tile_.x_px : tile_.x_of(world_index);
    const double y = top_ + line_part::axis_top;
    canvas_.line(left_ + x, y, left_ + x, y + 4, "class=\"axis\"");
    if (x < free_from) return;
    canvas_.text(left_ + x, top_ + line_part::axis_baseline, "font-size=\"10\" class=\"muted\"", label);
    free_from = x + text_px(label, 10) + 8;
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
  const double left_;
  const double top_;
};

}  // namespace

void draw_tile(Canvas& canvas, const Layout& layout, const BufferLayout& buffer, const Tile& tile,
               double left, double top, double& axis_free_from) {
  TilePainter painter(canvas, layout, buffer, tile, left, top);
  painter.label();
  painter.params();
  painter.owners();
  painter.axis(axis_free_from);
}

}  // namespace zero1::svg
