// Keys and mouse between the window system and ImGui: nothing is lost where a frame takes long.
#pragma once

#include <imgui.h>

#include <cfloat>
#include <deque>
#include <variant>

#include "viz/panels/input_feed.h"

namespace zero1::viz {

/// ImGui 1.86 sees input as a state, once per frame (later ones have a queue like this one, switched off
/// here). A key that is pressed and released between two frames would never have been down, a click followed
/// by a move would land where the move ended. So what happens is queued in its order, and each frame is given
/// as much of it as ImGui can see at once: a second change of the same key or button, or the end of Ctrl
/// behind the letter it belongs to, waits for the next frame.
class InputQueue {
 public:
  // Called as things happen. Keys and buttons are numbered as ImGui's back end does: by GLFW's constants.
  void key(int key, bool down);
  void button(int button, bool down);
  void move(ImVec2 to);
  /// The mouse has left the window. While a button is held it stays where it is: it is still followed.
  void leave();
  void wheel(ImVec2 notches);
  void character(unsigned letter);

  /// Between the back end's NewFrame and ImGui's: sets keys, modifiers, mouse and letters in `io`.
  void deliver(ImGuiIO& io);
  /// Whether something waits for one more frame.
  bool waiting() const { return !queue_.empty(); }

 private:
  static constexpr int key_count = 512;  ///< more than GLFW numbers
  static constexpr int button_count = IM_ARRAYSIZE(ImGuiIO::MouseDown);

  struct Key {
    int key;
    bool down;
  };
  struct Button {
    int button;
    bool down;
  };
  struct Move {
    ImVec2 to;
  };
  struct Wheel {
    ImVec2 notches;
  };
  struct Letter {
    unsigned letter;
  };
  using Input = std::variant<Key, Button, Move, Wheel, Letter>;
  struct Frame;  ///< what one frame has been given so far

  static bool fits(const Input& input, const Frame& frame);
  void apply(const Input& input, Frame& frame, ImGuiIO& io);
  input::Modifiers modifiers() const;

  std::deque<Input> queue_;
  int held_buttons_ = 0;  ///< one bit each, as of the end of the queue
  // What ImGui has been told.
  ImVec2 mouse_{-FLT_MAX, -FLT_MAX};
  bool keys_[key_count] = {};
  bool buttons_[button_count] = {};
};

}  // namespace zero1::viz
