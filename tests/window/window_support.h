// What tests of the window share: pictures read back, and the program's command line.
#pragma once

#include <doctest/doctest.h>
#include <png.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/temporary_folder.h"
#include "viz/app/picture.h"

namespace zero1::viz::test {

/// Runs `zero1_viz ARGUMENTS` with a home of its own, and without a display.
inline zero1::test::Outcome run_viz(const zero1::test::TemporaryFolder& home, const std::string& arguments) {
  return zero1::test::run_command(
      "env -u DISPLAY -u WAYLAND_DISPLAY HOME=" + zero1::test::quoted(home.path()) +
      " XDG_CONFIG_HOME= " + zero1::test::quoted(ZERO1_BIN_DIR "/zero1_viz") + " " + arguments);
}

inline Picture read_png(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  REQUIRE_MESSAGE(png_image_begin_read_from_file(&image, path.c_str()) != 0, path);
  image.format = PNG_FORMAT_RGBA;
  Picture picture{static_cast<int>(image.width), static_cast<int>(image.height), {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  REQUIRE(png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr) != 0);
  return picture;
}

/// How many pixels have this colour (IM_COL32), whatever its alpha.
inline int count_colour(const Picture& picture, std::uint32_t colour) {
  int count = 0;
  for (std::size_t i = 0; i + 3 < picture.pixels.size(); i += 4) {
    const std::uint32_t pixel =
        picture.pixels[i] | (picture.pixels[i + 1] << 8) | (picture.pixels[i + 2] << 16);
    count += pixel == (colour & 0xFFFFFFu) ? 1 : 0;
  }
  return count;
}

inline std::size_t colours_in(const Picture& picture) {
  std::set<std::uint32_t> colours;
  for (std::size_t i = 0; i + 3 < picture.pixels.size(); i += 4) {
    colours.insert(picture.pixels[i] | (picture.pixels[i + 1] << 8) | (picture.pixels[i + 2] << 16));
  }
  return colours.size();
}

inline int different_pixels(const Picture& a, const Picture& b) {
  REQUIRE(a.pixels.size() == b.pixels.size());
  int count = 0;
  for (std::size_t i = 0; i < a.pixels.size(); i += 4) {
    count += std::equal(a.pixels.begin() + static_cast<std::ptrdiff_t>(i),
                        a.pixels.begin() + static_cast<std::ptrdiff_t>(i + 3),
                        b.pixels.begin() + static_cast<std::ptrdiff_t>(i))
                 ? 0
                 : 1;
  }
  return count;
}

}  // namespace zero1::viz::test
