// Pictures of the window without a display: EGL draws into memory, libpng writes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace zero1::viz {

/// RGBA, 8 bits each, rows from the top.
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> pixels;
};

/// OpenGL without a display. One at a time, on the thread that made it.
class Offscreen {
 public:
  /// Throws Error telling what EGL lacks.
  Offscreen(int width, int height);
  Offscreen(const Offscreen&) = delete;
  Offscreen& operator=(const Offscreen&) = delete;
  ~Offscreen();

  /// Clears to `clear_colour` (IM_COL32), lets `draw` draw, and leaves the result to `read`.
  void frame(std::uint32_t clear_colour, const std::function<void()>& draw);
  Picture read() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes the picture whole or not at all. Throws Error or InputError naming the file.
void write_png(const Picture& picture, const std::string& path);

}  // namespace zero1::viz
