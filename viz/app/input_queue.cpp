#include "viz/app/input_queue.h"

#define GLFW_INCLUDE_NONE  // NOLINT: GLFW's own switch
#include <GLFW/glfw3.h>

#include <bitset>

#include "viz/panels/input_feed.h"

namespace zero1::viz {

namespace {

constexpr bool is_modifier(int key) {
  return key >= GLFW_KEY_LEFT_SHIFT && key <= GLFW_KEY_RIGHT_SUPER;
}

}  // namespace

struct InputQueue::Frame {
  std::bitset<key_count> keys;
  std::bitset<button_count> buttons;
  bool commanded = false;  ///< a key, button or wheel, which modifiers and the mouse's place belong to
};

void InputQueue::key(int key, bool down) {
  if (key >= 0 && key < key_count) queue_.emplace_back(Key{key, down});
}

void InputQueue::button(int button, bool down) {
  if (button < 0 || button >= button_count) return;
  held_buttons_ = down ? held_buttons_ | (1 << button) : held_buttons_ & ~(1 << button);
  queue_.emplace_back(Button{button, down});
}

void InputQueue::move(ImVec2 to) {
  // Only where it stands when something happens, or at the end, can be seen.
  if (!queue_.empty() && std::holds_alternative<Move>(queue_.back())) queue_.pop_back();
  queue_.emplace_back(Move{to});
}

void InputQueue::leave() {
  if (held_buttons_ == 0) move({-FLT_MAX, -FLT_MAX});
}

void InputQueue::wheel(ImVec2 notches) {
  queue_.emplace_back(Wheel{notches});
}

void InputQueue::character(unsigned letter) {
  queue_.emplace_back(Letter{letter});
}

bool InputQueue::fits(const Input& input, const Frame& frame) {
  if (const auto* key = std::get_if<Key>(&input)) {
    if (is_modifier(key->key) && frame.commanded) return false;
    return !frame.keys[static_cast<std::size_t>(key->key)];
  }
  if (const auto* button = std::get_if<Button>(&input))
    return !frame.buttons[static_cast<std::size_t>(button->button)];
  if (std::holds_alternative<Move>(input)) return !frame.commanded;
  return true;
}

void InputQueue::apply(const Input& input, Frame& frame, ImGuiIO& io) {
  if (const auto* key = std::get_if<Key>(&input)) {
    const auto index = static_cast<std::size_t>(key->key);
    if (keys_[index] == key->down) return;  // GLFW releases all keys itself as the window loses them
    keys_[index] = key->down;
    frame.keys.set(index);
    frame.commanded = frame.commanded || !is_modifier(key->key);
    if (is_modifier(key->key)) input::feed_modifiers(io, modifiers());
    input::feed_key(io, input::key_of(key->key), key->down);
  } else if (const auto* button = std::get_if<Button>(&input)) {
    const auto index = static_cast<std::size_t>(button->button);
    if (buttons_[index] == button->down) return;
    buttons_[index] = button->down;
    frame.buttons.set(index);
    frame.commanded = true;
    input::feed_button(io, button->button, button->down);
  } else if (const auto* move = std::get_if<Move>(&input)) {
    mouse_ = move->to;
    input::feed_position(io, mouse_);
  } else if (const auto* wheel = std::get_if<Wheel>(&input)) {
    input::feed_wheel(io, wheel->notches);
    frame.commanded = true;
  } else {
    io.AddInputCharacter(std::get<Letter>(input).letter);
  }
}

input::Modifiers InputQueue::modifiers() const {
  const auto either = [this](int left, int right) { return keys_[left] || keys_[right]; };
  return {either(GLFW_KEY_LEFT_CONTROL, GLFW_KEY_RIGHT_CONTROL),
          either(GLFW_KEY_LEFT_SHIFT, GLFW_KEY_RIGHT_SHIFT), either(GLFW_KEY_LEFT_ALT, GLFW_KEY_RIGHT_ALT),
          either(GLFW_KEY_LEFT_SUPER, GLFW_KEY_RIGHT_SUPER)};
}

void InputQueue::deliver(ImGuiIO& io) {
  input::see_all_at_once(io);
  // The back end has set them to what they are by now.
  input::feed_position(io, mouse_);
  for (int button = 0; button < button_count; ++button) input::feed_button(io, button, buttons_[button]);
  Frame frame;
  while (!queue_.empty() && fits(queue_.front(), frame)) {
    const Input input = queue_.front();
    queue_.pop_front();
    apply(input, frame, io);
  }
}

}  // namespace zero1::viz
