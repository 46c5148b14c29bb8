// Keys and mouse as panels read them. With input_feed.h the one place that differs between ImGui 1.86, which
// numbers keys as the back end does, and what came after.
#pragma once

#include <imgui.h>

namespace zero1::viz::input {

/// A key that ImGui names: arrows, Enter, Escape …
using NamedKey = decltype(ImGuiKey_Enter);

/// What ImGui calls a key of GLFW's. There letters, digits and signs are their upper-case characters.
#if IMGUI_VERSION_NUM < 18700
inline ImGuiKey key_of(int glfw_key) {
  return glfw_key;
}
inline ImGuiKey key_of(NamedKey key) {
  return ImGui::GetKeyIndex(key);
}
#else
ImGuiKey key_of(int glfw_key);
inline ImGuiKey key_of(NamedKey key) {
  return key;
}
#endif

/// The number that GLFW gives F1, F2 …
inline int function_key(int number) {
  return 289 + number;
}

/// Has this letter, digit or sign just been pressed (or does it repeat)?
inline bool pressed(char key, bool repeat = false) {
  return ImGui::IsKeyPressed(key_of(int{key}), repeat);
}
inline bool pressed(NamedKey key, bool repeat = false) {
  return ImGui::IsKeyPressed(key_of(key), repeat);
}
inline bool function_key_pressed(int number) {
  return ImGui::IsKeyPressed(key_of(function_key(number)), false);
}
/// Either Enter key.
inline bool enter_pressed() {
  constexpr int glfw_keypad_enter = 335;
  return pressed(ImGuiKey_Enter) || ImGui::IsKeyPressed(key_of(glfw_keypad_enter), false);
}
/// The key that opens the menu of what is selected, or what stands for it where there is none.
inline bool menu_pressed() {
  constexpr int glfw_menu_key = 348;
  return ImGui::IsKeyPressed(key_of(glfw_menu_key), false) ||
         (ImGui::GetIO().KeyShift && function_key_pressed(10));
}
inline bool down(char key) {
  return ImGui::IsKeyDown(key_of(int{key}));
}

inline bool ctrl() {
  return ImGui::GetIO().KeyCtrl;
}
inline bool shift() {
  return ImGui::GetIO().KeyShift;
}

/// Leads the keyboard to the item drawn last. (Asked before the item, ImGui 1.90 leads to the one behind it
/// where the item had its cursor already.)
inline void focus_last_item() {
  ImGui::SetKeyboardFocusHere(-1);
}

/// May a panel take single letters as commands now? Not while a text field has the keyboard, nor with Ctrl.
inline bool letters_free() {
  return !ImGui::GetIO().WantTextInput && !ImGui::GetIO().KeyCtrl;
}

}  // namespace zero1::viz::input
