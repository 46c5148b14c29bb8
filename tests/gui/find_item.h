// Finds a widget on screen by its label, as a user's eye does.
#pragma once

#include <doctest/doctest.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <optional>
#include <string>

#include "tests/gui/gui_test.h"

namespace zero1::viz::test {

/// Moves the mouse over the window in small steps until ImGui says that it is over the widget whose label was
/// `label` where nothing was pushed; inside of PushID(number)s, give those as `path`. Fails the test where it
/// is not on screen.
inline ImVec2 find_item(Gui& gui, const std::string& window, const std::string& label,
                        std::initializer_list<int> path = {}) {
  const ImGuiWindow* found = ImGui::FindWindowByName(window.c_str());
  REQUIRE(found != nullptr);
  ImGuiID id = found->ID;
  for (const int part : path) id = ImHashData(&part, sizeof(part), id);
  id = ImHashStr(label.c_str(), 0, id);
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  for (float y = 4; y < size.y; y += 7) {
    for (float x = 4; x < size.x; x += 12) {
      input::feed_position(ImGui::GetIO(), {x, y});
      gui.frame();
      if (ImGui::GetHoveredID() == id) return {x, y};
    }
  }
  FAIL("'" << label << "' is not on screen");
  return {};
}

inline void click_item(Gui& gui, const std::string& window, const std::string& label,
                       std::initializer_list<int> path = {}) {
  gui.click(find_item(gui, window, label, path));
}

}  // namespace zero1::viz::test
