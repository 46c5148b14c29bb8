// The whole window with a document in it, without a back end.
#pragma once

#include <memory>
#include <utility>

#include "tests/gui/gui_test.h"
#include "viz/app/session.h"
#include "viz/app/shell.h"
#include "viz/model/event_index.h"

namespace zero1::viz::test {

struct ShownDocument {
  std::unique_ptr<Shell> shell;
  Gui gui;

  explicit ShownDocument(Document document, Preferences preferences = {}, float width = 1600,
                         float height = 900)
      : gui(
            [this] {
              if (shell == nullptr) return;
              update(shell->document());
              shell->draw();
            },
            width, height) {
    if (document.events != nullptr) document.events->absorb_all();
    shell = std::make_unique<Shell>(std::move(document), std::move(preferences), 1.0F);
    gui.frame(4);
  }
};

}  // namespace zero1::viz::test
