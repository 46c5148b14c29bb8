#include "core/layout/svg_paint.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/at.h"
#include "core/base/text.h"

namespace zero1::svg {
namespace {

constexpr std::array<Rgb, most_ranks_told_apart> okabe_ito{{{0x00, 0x72, 0xB2},
                                                            {0xE6, 0x9F, 0x00},
                                                            {0x00, 0x9E, 0x73},
                                                            {0xCC, 0x79, 0xA7},
                                                            {0x56, 0xB4, 0xE9},
                                                            {0xD5, 0x5E, 0x00},
                                                            {0xF0, 0xE4, 0x42},
                                                            {0x99, 0x99, 0x99}}};

constexpr std::array<Rgb, 10> viridis{{{0x44, 0x01, 0x54},
                                       {0x48, 0x28, 0x78},
                                       {0x3E, 0x49, 0x89},
                                       {0x31, 0x68, 0x8E},
                                       {0x26, 0x82, 0x8E},
                                       {0x1F, 0x9E, 0x89},
                                       {0x35, 0xB7, 0x79},
                                       {0x6E, 0xCE, 0x58},
                                       {0xB5, 0xDE, 0x2B},
                                       {0xFD, 0xE7, 0x25}}};

Rgb mix(const Rgb& a, const Rgb& b, double t) {
  const auto channel = [t](int from, int to) {
    return static_cast<int>(std::lround(from + (to - from) * t));
  };
  return {channel(a.red, b.red), channel(a.green, b.green), channel(a.blue, b.blue)};
}

}  // namespace

std::string escaped(std::string_view text) {
  constexpr std::string_view replacement = "\uFFFD";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::string_view three = text.substr(i, 3);
    if (three == "\xEF\xBF\xBE" || three == "\xEF\xBF\xBF") {  // U+FFFE and U+FFFF are no characters of XML
      out += replacement;
      i += 2;
      continue;
    }
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n': out += '\n'; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
          out += replacement;
        } else {
          out += c;
        }
    }
  }
  return out;
}

double text_px(std::string_view text, double font_px) {
  return static_cast<double>(char_count(text)) * font_px * 0.57;
}

std::string short_count(std::int64_t count) {
  auto value = static_cast<double>(count);
  if (count < 1000) return fmt::format("{}", count);
  std::string_view prefix = "k";
  value /= 1000;
  for (const std::string_view next : {"M", "G", "T", "P", "E"}) {
    if (value < 1000) break;
    value /= 1000;
    prefix = next;
  }
  return fmt::format("{:.4g}{}", value, prefix);
}

Rgb rank_rgb(std::int64_t rank, std::int64_t rank_count) {
  if (rank_count <= most_ranks_told_apart) return at(okabe_ito, rank);
  const double position = static_cast<double>(rank) / static_cast<double>(rank_count - 1) *
                          static_cast<double>(viridis.size() - 1);
  const auto stop = std::min(static_cast<std::size_t>(position), viridis.size() - 2);
  return mix(viridis[stop], viridis[stop + 1], position - static_cast<double>(stop));
}

RankColour rank_colour(std::int64_t rank, std::int64_t rank_count) {
  const Rgb colour = rank_rgb(rank, rank_count);
  const double luminance = 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue;
  return {fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue), luminance < 100};
}

std::string_view definitions() {
  return R"svg(<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",Helvetica,Arial,sans-serif;fill:#1f2328}
.card{fill:#ffffff;stroke:#d0d7de}
.muted{fill:#656d76}
.param{fill:#dbe3ee;stroke:#ffffff;stroke-width:.6}
.odd{fill:#c2cedd}
.shared{fill:#f2cf9b}
.pad{fill:#f3f4f6}
.hatch{stroke:#8c959f}
.frame{fill:none;stroke:#8c959f;stroke-width:.8}
.axis{stroke:#8c959f;stroke-width:.8}
.rank{stroke:#ffffff;stroke-width:.6}
.on-dark{fill:#ffffff}
.on-light{fill:#1f2328}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.card{fill:#0d1117;stroke:#30363d}
.muted{fill:#9198a1}
.param{fill:#3a4655;stroke:#0d1117}
.odd{fill:#4c5b6e}
.shared{fill:#8a6424}
.pad{fill:#161b22}
.rank{stroke:#0d1117}
}
</style>
<defs>
<pattern id="pad" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="pad" width="6" height="6"/><line class="hatch" x1="0" y1="0" x2="0" y2="6" stroke="#8c959f" stroke-width="1.4"/></pattern>
<pattern id="over" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" stroke="#ffffff" stroke-opacity=".75" stroke-width="2.4"/></pattern>
</defs>
)svg";
}

void Canvas::rect(const Box& box, std::string_view attributes, std::string_view tooltip) {
  raw("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}", box.x, box.y, box.width,
      box.height, attributes);
  if (tooltip.empty()) {
    raw("/>\n");
  } else {
    raw("><title>{}</title></rect>\n", escaped(tooltip));
  }
}

void Canvas::text(double x, double y, std::string_view attributes, std::string_view text) {
  raw("<text x=\"{:.2f}\" y=\"{:.2f}\" {}>{}</text>\n", x, y, attributes, escaped(text));
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view attributes) {
  raw("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n", x1, y1, x2, y2, attributes);
}

}  // namespace zero1::svg
