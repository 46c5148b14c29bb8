// The window on a display, and the picture without one: both draw the same shell.
#pragma once

#include <functional>
#include <string>

#include "viz/app/shell.h"

namespace zero1::viz {

struct WindowOptions {
  int frames = 0;             ///< quit after so many; 0: when the user does
  float scale = 0;            ///< of everything; 0: the monitor's
  std::string config_folder;  ///< where the layout is remembered; empty: nowhere
  std::string tab;            ///< as in PictureOptions
};

/// Shows `document` until the user quits. Throws InputError where there is no display.
void show_window(Document document, Preferences preferences, const WindowOptions& options);

struct PictureOptions {
  std::string path;
  int width = 1440;
  int height = 900;
  int frames = 0;  ///< drawn before the picture is taken; 0: as many as it needs to settle
  float scale = 1;
  std::string tab;  ///< the panel of the right column that is in front; empty: the first
};

/// Draws `document` once everything of it has been read, and writes a PNG.
void take_picture(Document document, Preferences preferences, const PictureOptions& options);

}  // namespace zero1::viz
