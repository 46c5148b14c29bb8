// A panel that shows a run of its own which stands still.
#pragma once

#include <memory>

#include "tests/gui/gui_test.h"
#include "tests/gui/live_support.h"

namespace zero1::viz::test {

struct LivePanel {
  std::unique_ptr<Panel> panel;
  Document document;
  Theme theme;
  Gui gui;

  /// `events`: how many there are at least; 0: it stands in front of the first.
  explicit LivePanel(std::unique_ptr<Panel> shown, std::int64_t events = 0, float width = 1200,
                     float height = 800)
      : panel(std::move(shown)),
        document(paused_document(events)),
        gui(*panel, document, theme, width, height) {
    gui.frame(2);
  }
};

}  // namespace zero1::viz::test
