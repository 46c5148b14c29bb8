// Keys and mouse as ImGui is given them: 1.86 has a state that is set, later ones take events. Whoever calls
// decides what ImGui sees together in one frame.
#pragma once

#include "viz/panels/input.h"

namespace zero1::viz::input {

struct Modifiers {
  bool ctrl = false;
  bool shift = false;
  bool alt = false;
  bool super = false;
};

#if IMGUI_VERSION_NUM < 18700

inline void feed_key(ImGuiIO& io, ImGuiKey key, bool down) {
  io.KeysDown[key] = down;
}
inline void feed_modifiers(ImGuiIO& io, const Modifiers& held) {
  io.KeyCtrl = held.ctrl;
  io.KeyShift = held.shift;
  io.KeyAlt = held.alt;
  io.KeySuper = held.super;
}
inline void feed_position(ImGuiIO& io, ImVec2 at) {
  io.MousePos = at;
}
inline void feed_button(ImGuiIO& io, int button, bool down) {
  io.MouseDown[button] = down;
}
inline void feed_wheel(ImGuiIO& io, ImVec2 notches) {
  io.MouseWheelH += notches.x;
  io.MouseWheel += notches.y;
}
inline void see_all_at_once(ImGuiIO&) {}

#else

inline void feed_key(ImGuiIO& io, ImGuiKey key, bool down) {
  if (key != ImGuiKey_None) io.AddKeyEvent(key, down);
}
inline void feed_modifiers(ImGuiIO& io, const Modifiers& held) {
  io.AddKeyEvent(ImGuiMod_Ctrl, held.ctrl);
  io.AddKeyEvent(ImGuiMod_Shift, held.shift);
  io.AddKeyEvent(ImGuiMod_Alt, held.alt);
  io.AddKeyEvent(ImGuiMod_Super, held.super);
}
inline void feed_position(ImGuiIO& io, ImVec2 at) {
  io.AddMousePosEvent(at.x, at.y);
}
inline void feed_button(ImGuiIO& io, int button, bool down) {
  io.AddMouseButtonEvent(button, down);
}
inline void feed_wheel(ImGuiIO& io, ImVec2 notches) {
  io.AddMouseWheelEvent(notches.x, notches.y);
}
/// Not one event a frame, as ImGui does by itself where they might hide each other.
inline void see_all_at_once(ImGuiIO& io) {
  io.ConfigInputTrickleEventQueue = false;
}

#endif

}  // namespace zero1::viz::input
