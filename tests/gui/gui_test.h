// Draws panels without a window: an ImGui context with no back end, and input set by hand.
#pragma once

#include <imgui.h>

#include <cstdint>
#include <functional>
#include <string>

#include "viz/panels/input_feed.h"
#include "viz/panels/panel.h"

namespace zero1::viz::test {

/// One context at a time. Every call that changes input draws as many frames as ImGui needs to see it.
class Gui {
 public:
  /// Draws one frame's content, between NewFrame and Render.
  using Draw = std::function<void()>;

  explicit Gui(Draw draw, float width = 1200, float height = 800) : draw_(std::move(draw)) {
    context_ = ImGui::CreateContext();
    ImGui::SetCurrentContext(context_);
    ImGuiIO& io = ImGui::GetIO();
    io.IniFilename = nullptr;
    io.LogFilename = nullptr;
    io.DisplaySize = {width, height};
    io.DeltaTime = 1.0F / 60;
    io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;
    input::feed_position(io, {-1, -1});
    input::see_all_at_once(io);
    io.Fonts->Build();
#if IMGUI_VERSION_NUM < 18700
    // As GLFW numbers keys that are letters or signs; the others lie above.
    for (int key = 0; key < ImGuiKey_COUNT; ++key) io.KeyMap[key] = first_named_key + key;
    for (const auto& [key, letter] :
         {std::pair{ImGuiKey_A, 'A'}, std::pair{ImGuiKey_C, 'C'}, std::pair{ImGuiKey_V, 'V'},
          std::pair{ImGuiKey_X, 'X'}, std::pair{ImGuiKey_Y, 'Y'}, std::pair{ImGuiKey_Z, 'Z'}})
      io.KeyMap[key] = letter;
    io.KeyMap[ImGuiKey_Space] = ' ';
#endif
  }

  /// A panel in a window that fills the display.
  Gui(Panel& panel, Document& document, const Theme& theme, float width = 1200, float height = 800)
      : Gui(
            [&panel, &document, &theme] {
              ImGui::SetNextWindowPos({0, 0});
              ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
              const std::string title(panel.title());
              ImGui::Begin(
                  title.c_str(), nullptr,
                  ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoSavedSettings);
              panel.draw(document, theme);
              ImGui::End();
            },
            width, height) {}

  Gui(const Gui&) = delete;
  Gui& operator=(const Gui&) = delete;
  ~Gui() {
    ImGui::DestroyContext(context_);
  }

  void frame(int count = 1) {
    for (int i = 0; i < count; ++i) {
      ImGui::NewFrame();
      draw_();
      ImGui::Render();
      ImGui::GetIO().MouseWheel = 0;
      ImGui::GetIO().MouseWheelH = 0;
    }
  }

  void move(ImVec2 to) {
    input::feed_position(ImGui::GetIO(), to);
    frame(2);
  }
  /// Moves, presses, releases: a click takes three frames.
  void click(ImVec2 at, int button = 0) {
    move(at);
    press(button);
    release(button);
  }
  void double_click(ImVec2 at, int button = 0) {
    click(at, button);
    press(button);
    release(button);
  }
  void press(int button = 0) {
    input::feed_button(ImGui::GetIO(), button, true);
    frame();
  }
  void release(int button = 0) {
    input::feed_button(ImGui::GetIO(), button, false);
    frame(2);
  }
  void drag(ImVec2 from, ImVec2 to, int button = 0) {
    move(from);
    press(button);
    for (int i = 1; i <= 4; ++i) {
      const float part = static_cast<float>(i) / 4;
      input::feed_position(ImGui::GetIO(),
                           {from.x + (to.x - from.x) * part, from.y + (to.y - from.y) * part});
      frame();
    }
    release(button);
  }
  void wheel(ImVec2 at, float notches) {
    move(at);
    input::feed_wheel(ImGui::GetIO(), {0, notches});
    frame(2);
  }

  /// A key that ImGui names, or a letter, digit or sign as its upper-case character.
  void key(input::NamedKey named) {
    tap(input::key_of(named));
  }
  void key(char letter) {
    tap(input::key_of(int{letter}));
  }
  /// F1 … F12
  void function_key(int number) {
    tap(input::key_of(input::function_key(number)));
  }
  /// By the number that GLFW gives it, for those that ImGui 1.86 has no name for.
  void press_key(int glfw_key) {
    tap(input::key_of(glfw_key));
  }
  void hold_key(char letter, bool down) {
    input::feed_key(ImGui::GetIO(), input::key_of(int{letter}), down);
    frame();
  }
  void ctrl(bool down) {
    held_.ctrl = down;
    input::feed_modifiers(ImGui::GetIO(), held_);
  }
  void shift(bool down) {
    held_.shift = down;
    input::feed_modifiers(ImGui::GetIO(), held_);
  }
  void ctrl_key(char letter) {
    ctrl(true);
    key(letter);
    ctrl(false);
    frame();
  }
  /// Into the field that has the focus.
  void type(const std::string& text) {
    ImGui::GetIO().AddInputCharactersUTF8(text.c_str());
    frame(2);
  }

  /// Of the last frame, all windows together.
  int vertices() const {
    return ImGui::GetDrawData()->TotalVtxCount;
  }
  /// Triangles of the last frame that have this colour in all corners, whatever its alpha.
  int triangles_coloured(ImU32 colour) const {
    const ImU32 mask = ~static_cast<ImU32>(IM_COL32_A_MASK);
    int count = 0;
    const ImDrawData* data = ImGui::GetDrawData();
    for (int l = 0; l < data->CmdListsCount; ++l) {
      const ImDrawList& list = *data->CmdLists[l];
      for (const ImDrawCmd& command : list.CmdBuffer) {
        for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
          bool same = true;
          for (unsigned k = 0; k < 3; ++k) {
            const auto index = static_cast<int>(command.VtxOffset) +
                               list.IdxBuffer[static_cast<int>(command.IdxOffset + i + k)];
            same = same && (list.VtxBuffer[index].col & mask) == (colour & mask);
          }
          count += same ? 1 : 0;
        }
      }
    }
    return count;
  }

 private:
#if IMGUI_VERSION_NUM < 18700
  static constexpr int first_named_key = 400;
#endif

  void tap(ImGuiKey key) {
    input::feed_key(ImGui::GetIO(), key, true);
    frame();
    input::feed_key(ImGui::GetIO(), key, false);
    frame(2);
  }

  Draw draw_;
  input::Modifiers held_;
  ImGuiContext* context_ = nullptr;
};

}  // namespace zero1::viz::test
