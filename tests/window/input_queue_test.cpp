// Input that comes faster than frames: nothing is lost, and nothing changes its order.
#include "viz/app/input_queue.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <doctest/doctest.h>

#include <string>

using zero1::viz::InputQueue;
namespace input = zero1::viz::input;

namespace {

/// What ImGui would see, frame by frame.
struct Frames {
  InputQueue queue;
  ImGuiContext* context = ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  bool began = false;

  Frames() {
    io.IniFilename = nullptr;
    io.DisplaySize = {400, 500};
    io.Fonts->Build();
  }
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;
  ~Frames() {
    if (began) ImGui::EndFrame();
    ImGui::DestroyContext(context);
  }

  void next() {
    if (began) ImGui::EndFrame();
    began = true;
    queue.deliver(io);
    ImGui::NewFrame();
  }
  bool down(int key) const { return ImGui::IsKeyDown(input::key_of(key)); }
  void tap(int key) {
    queue.key(key, true);
    queue.key(key, false);
  }
};

}  // namespace

TEST_CASE("a key that was pressed and released between two frames is down for one") {
  Frames f;
  f.tap(GLFW_KEY_F1);
  f.next();
  CHECK(f.down(GLFW_KEY_F1));
  CHECK(f.queue.waiting());
  f.next();
  CHECK_FALSE(f.down(GLFW_KEY_F1));
  CHECK_FALSE(f.queue.waiting());
}

TEST_CASE("every one of several strokes is seen") {
  Frames f;
  for (int i = 0; i < 3; ++i) f.tap('N');
  int strokes = 0;
  for (bool before = false; f.queue.waiting();) {
    f.next();
    strokes += f.down('N') && !before ? 1 : 0;
    before = f.down('N');
  }
  CHECK(strokes == 3);
}

TEST_CASE("a letter keeps the Ctrl that it was pressed with, and does not get one that came later") {
  Frames f;
  f.queue.key(GLFW_KEY_LEFT_CONTROL, true);
  f.tap('T');
  f.queue.key(GLFW_KEY_LEFT_CONTROL, false);
  f.tap('N');
  f.queue.key(GLFW_KEY_RIGHT_CONTROL, true);
  std::string seen;
  for (std::string before; f.queue.waiting();) {
    f.next();
    std::string now;
    for (const char letter : {'T', 'N'}) {
      if (f.down(letter)) now += (f.io.KeyCtrl ? "Ctrl+" : "") + std::string(1, letter) + " ";
    }
    if (now != before) seen += now;
    before = now;
  }
  CHECK(seen == "Ctrl+T N ");
  CHECK(f.io.KeyCtrl);
}

TEST_CASE("keys that are held together come together") {
  Frames f;
  f.queue.key('W', true);
  f.queue.key('D', true);
  f.next();
  CHECK(f.down('W'));
  CHECK(f.down('D'));
  CHECK_FALSE(f.queue.waiting());
}

TEST_CASE("a click is seen where it was made, however soon the mouse moves on") {
  Frames f;
  f.queue.move({1, 2});
  f.queue.move({10, 20});
  f.queue.button(0, true);
  f.queue.button(0, false);
  f.queue.move({300, 400});
  f.queue.wheel({0, 1});
  f.next();
  CHECK(f.io.MousePos.x == 10);
  CHECK(f.io.MouseDown[0]);
  f.next();
  CHECK(f.io.MousePos.x == 10);
  CHECK_FALSE(f.io.MouseDown[0]);
  CHECK(f.io.MouseWheel == 0);
  f.next();
  CHECK(f.io.MousePos.y == 400);
  CHECK(f.io.MouseWheel == 1);
  CHECK_FALSE(f.queue.waiting());
}

TEST_CASE("a drag goes on outside of the window; without a button the mouse is gone") {
  Frames f;
  f.queue.move({10, 20});
  f.queue.button(0, true);
  f.queue.leave();
  f.next();
  CHECK(f.io.MousePos.x == 10);
  f.queue.move({-50, 20});
  f.queue.button(0, false);
  f.next();
  CHECK(f.io.MousePos.x == -50);
  f.queue.leave();
  f.next();
  f.next();
  CHECK(f.io.MousePos.x == -FLT_MAX);
}

TEST_CASE("letters come in order, and unknown keys do no harm") {
  Frames f;
  for (const char letter : {'a', 'b'}) {
    f.queue.key(letter - 32, true);
    f.queue.character(static_cast<unsigned char>(letter));
  }
  f.tap(-1);
  f.tap(100'000);
  f.queue.button(77, true);
  f.next();
  REQUIRE(f.io.InputQueueCharacters.Size == 2);
  CHECK(f.io.InputQueueCharacters[0] == 'a');
  CHECK(f.io.InputQueueCharacters[1] == 'b');
  CHECK_FALSE(f.queue.waiting());
}
