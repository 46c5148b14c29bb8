// Keys and mouse as panels read them: the one place that differs between ImGui 1.86 and what came after.
#pragma once

#include <imgui.h>

namespace zero1::viz::input {

// ImGui 1.86 numbers keys as the back end does: GLFW's letters, digits and signs are their upper-case
// characters, F1 is 290. The names that ImGui gives itself (arrows, Enter …) go through its own map.

/// Has this letter, digit or sign just been pressed (or does it repeat)?
inline bool pressed(char key, bool repeat = false) {
  return ImGui::IsKeyPressed(key, repeat);
}
inline bool pressed(ImGuiKey_ key, bool repeat = false) {
  return ImGui::IsKeyPressed(ImGui::GetKeyIndex(key), repeat);
}
inline bool function_key_pressed(int number) {
  return ImGui::IsKeyPressed(289 + number, false);
}
/// The key that opens the menu of what is selected, or what stands for it where there is none.
inline bool menu_pressed() {
  constexpr int glfw_menu_key = 348;
  return ImGui::IsKeyPressed(glfw_menu_key, false) || (ImGui::GetIO().KeyShift && function_key_pressed(10));
}
inline bool down(char key) {
  return ImGui::IsKeyDown(key);
}

inline bool ctrl() {
  return ImGui::GetIO().KeyCtrl;
}
inline bool shift() {
  return ImGui::GetIO().KeyShift;
}

/// May a panel take single letters as commands now? Not while a text field has the keyboard, nor with Ctrl.
inline bool letters_free() {
  return !ImGui::GetIO().WantTextInput && !ImGui::GetIO().KeyCtrl;
}

}  // namespace zero1::viz::input
