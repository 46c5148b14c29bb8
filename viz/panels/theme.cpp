#include "viz/panels/theme.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/layout/svg_paint.h"

namespace zero1::viz {

namespace {

constexpr double pi = 3.14159265358979323846;

double gamma_encoded(double linear) {
  const double c = std::clamp(linear, 0.0, 1.0);
  return c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
}

double gamma_decoded(double encoded) {
  return encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4);
}

/// OKLCH: hues of one lightness look equally light, which HSV's do not. Hue in degrees.
ImU32 from_lch(double lightness, double chroma, double hue) {
  const double a = chroma * std::cos(hue * pi / 180);
  const double b = chroma * std::sin(hue * pi / 180);
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto channel = [](double linear) {
    return static_cast<ImU32>(std::lround(255 * gamma_encoded(linear)));
  };
  return IM_COL32(channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                  channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                  channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s), 255);
}

/// Neighbours differ by the golden angle in hue and by a step in lightness, so that they can be told apart
/// without seeing hues. Reds around that of `exposed` are left out.
ImU32 bucket_colour(int bucket, bool dark) {
  constexpr double golden = 0.6180339887498949;
  constexpr double first_hue = 55;
  constexpr double last_hue = 325;
  const double turn = std::fmod(0.62 + golden * bucket, 1.0);
  const double step = std::array<double, 3>{0, 0.13, -0.09}[static_cast<std::size_t>(bucket % 3)];
  return from_lch((dark ? 0.68 : 0.62) + step, 0.125, first_hue + turn * (last_hue - first_hue));
}

constexpr int cached_buckets = 256;

std::array<ImU32, cached_buckets> bucket_colours(bool dark) {
  std::array<ImU32, cached_buckets> colours{};
  for (int b = 0; b < cached_buckets; ++b) colours[static_cast<std::size_t>(b)] = bucket_colour(b, dark);
  return colours;
}

double luminance(ImU32 colour) {
  const auto channel = [colour](int shift) {
    return gamma_decoded(static_cast<double>((colour >> shift) & 0xFFu) / 255);
  };
  return 0.2126 * channel(IM_COL32_R_SHIFT) + 0.7152 * channel(IM_COL32_G_SHIFT) +
         0.0722 * channel(IM_COL32_B_SHIFT);
}

}  // namespace

ImU32 Theme::rank(int rank, int ranks) const {
  if (rank < 0) return padding();
  const svg::Rgb colour = svg::rank_rgb(rank, std::max(ranks, rank + 1));
  return IM_COL32(colour.red, colour.green, colour.blue, 255);
}

ImU32 Theme::bucket(int bucket) const {
  if (bucket < 0) return dark ? IM_COL32(139, 148, 158, 255) : IM_COL32(120, 128, 138, 255);
  static const std::array<ImU32, cached_buckets> in_dark = bucket_colours(true);
  static const std::array<ImU32, cached_buckets> in_light = bucket_colours(false);
  return (dark ? in_dark : in_light)[static_cast<std::size_t>(bucket % cached_buckets)];
}

// Quiet colours, so that collectives, which have their bucket's, stand out: blue forward, teal backward,
// violet the optimizer's phases, brown checkpoints.
ImU32 Theme::kind(trace::Kind kind) const {
  const auto tone = [this](double hue, double step, double chroma = 0.07) {
    return from_lch((dark ? 0.50 : 0.80) + step, chroma, hue);
  };
  using trace::Kind;
  switch (kind) {
    case Kind::step: return tone(255, dark ? -0.16 : 0.10, 0.02);
    case Kind::microbatch: return tone(255, dark ? -0.10 : 0.06, 0.03);
    case Kind::data: return tone(110, 0, 0.06);
    case Kind::forward: return tone(250, 0.02, 0.09);
    case Kind::backward: return tone(180, 0.02);
    case Kind::evaluation: return tone(220, -0.03);
    case Kind::grad_ready: return tone(140, 0.12, 0.11);
    case Kind::bucket_state: return tone(255, 0.10, 0.03);
    case Kind::scale_gradients: return tone(300, -0.08);
    case Kind::check_gradients: return tone(325, -0.04, 0.05);
    case Kind::copy_grads: return tone(285, 0.02);
    case Kind::grad_norm: return tone(310, 0.08, 0.08);
    case Kind::clip: return tone(335, 0.04, 0.08);
    case Kind::adamw: return tone(295, 0.06, 0.11);
    case Kind::copy_params: return tone(275, -0.04);
    case Kind::zero_grads: return tone(290, -0.12, 0.04);
    case Kind::checkpoint_snapshot: return tone(70, 0.04);
    case Kind::checkpoint_write: return tone(65, -0.04);
    case Kind::checkpoint_publish: return tone(80, 0.10);
    case Kind::checkpoint_load: return tone(60, 0);
    default: return tone(255, 0, 0.015);
  }
}

ImU32 Theme::exposed() const {
  return dark ? IM_COL32(255, 71, 108, 255) : IM_COL32(214, 16, 66, 255);
}
ImU32 Theme::padding() const {
  return dark ? IM_COL32(92, 99, 109, 255) : IM_COL32(164, 172, 182, 255);
}
ImU32 Theme::selected() const {
  return dark ? IM_COL32(255, 255, 255, 255) : IM_COL32(10, 12, 16, 255);
}
ImU32 Theme::changed() const {
  return dark ? IM_COL32(255, 190, 70, 255) : IM_COL32(176, 96, 0, 255);
}
ImU32 Theme::text() const {
  return dark ? IM_COL32(230, 237, 243, 255) : IM_COL32(31, 35, 40, 255);
}
ImU32 Theme::faint_text() const {
  return dark ? IM_COL32(152, 161, 172, 255) : IM_COL32(92, 101, 112, 255);
}
ImU32 Theme::background() const {
  return dark ? IM_COL32(17, 21, 27, 255) : IM_COL32(252, 253, 254, 255);
}
ImU32 Theme::grid() const {
  return dark ? IM_COL32(48, 55, 65, 255) : IM_COL32(216, 222, 228, 255);
}

ImU32 Theme::text_on(ImU32 fill) {
  // The luminance at which black and white have the same contrast by WCAG's formula.
  return luminance(fill) > 0.179 ? IM_COL32(0, 0, 0, 255) : IM_COL32(255, 255, 255, 255);
}

}  // namespace zero1::viz
