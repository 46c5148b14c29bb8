// Colours, text and shapes of the ownership map.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace zero1::svg {

/// Text as XML content or attribute; control characters, U+FFFE and U+FFFF, which XML cannot hold, become
/// U+FFFD.
std::string escaped(std::string_view text);

/// About how wide `text` is in the map's font.
double text_px(std::string_view text, double font_px);

/// "950", "12.5k", "1.208G": a count of elements in few letters.
std::string short_count(std::int64_t count);

struct Rgb {
  int red, green, blue;
};

struct RankColour {
  std::string fill;
  bool dark = false;  ///< light text on it
};

/// Up to this many ranks get colours of Okabe and Ito's palette.
inline constexpr std::int64_t most_ranks_told_apart = 8;

/// Okabe and Ito's palette for few ranks, viridis from rank 0 to the last for more. Both can be
/// told apart with any kind of colour vision; numbers are drawn as well.
RankColour rank_colour(std::int64_t rank, std::int64_t rank_count);
Rgb rank_rgb(std::int64_t rank, std::int64_t rank_count);

/// The style sheet and the patterns, for the head of the document.
std::string_view definitions();

/// Appends to the document. Coordinates are written to a hundredth of a pixel.
class Canvas {
 public:
  struct Box {
    double x = 0;
    double y = 0;
    double width = 0;
    double height = 0;
  };

  /// A rectangle; `attributes` are written as they are, `tooltip` is escaped and may be empty.
  void rect(const Box& box, std::string_view attributes, std::string_view tooltip = {});
  /// Text with the anchor at (x, y); `text` is escaped.
  void text(double x, double y, std::string_view attributes, std::string_view text);
  void line(double x1, double y1, double x2, double y2, std::string_view attributes);

  template <class... Args>
  void raw(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace zero1::svg
