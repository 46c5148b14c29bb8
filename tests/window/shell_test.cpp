// The window's shell without a back end: keys, menu, themes, what it remembers.
#include "viz/app/shell.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>

#include "tests/gui/screen_text.h"
#include "tests/support/temporary_folder.h"
#include "tests/window/shown_document.h"

using namespace zero1;
using namespace zero1::viz;
using viz::test::on_screen;

namespace {

struct Fixture : viz::test::ShownDocument {
  explicit Fixture(Preferences preferences = {})
      : ShownDocument(explore(""), std::move(preferences), 1440, 900) {}
};

}  // namespace

TEST_CASE("Ctrl+T changes the theme, Ctrl+Q quits, F1 opens and closes help") {
  Fixture f;
  const bool dark = f.shell->theme().dark;
  const ImU32 ground = f.shell->theme().background();
  CHECK(f.gui.triangles_coloured(ground) > 0);
  f.gui.ctrl_key('T');
  CHECK(f.shell->theme().dark != dark);
  CHECK(f.shell->preferences().dark != dark);
  CHECK(f.gui.triangles_coloured(f.shell->theme().background()) > 0);
  const int vertices = f.gui.vertices();
  f.gui.function_key(1);
  f.gui.frame(3);
  CHECK(f.gui.vertices() > vertices + 2000);  // a page of text
  f.gui.function_key(1);
  f.gui.frame(3);
  CHECK(f.gui.vertices() < vertices + 500);
  CHECK_FALSE(f.shell->quit());
  f.gui.ctrl_key('Q');
  CHECK(f.shell->quit());
}

TEST_CASE("the help page is read to its end by keys") {
  Fixture f;
  f.gui.function_key(1);
  f.gui.frame(3);
  // Beside the page the panels are drawn too: a line of the last panel's help tells where it stands.
  const std::string last = "SPEC file";
  ImGui::GetIO().DisplaySize = {1440, 300};
  f.gui.frame(3);
  CHECK(!on_screen(last));
  for (int i = 0; i < 12; ++i) f.gui.key(ImGuiKey_PageDown);
  CHECK(on_screen(last));
  f.gui.key(ImGuiKey_Home);
  CHECK(!on_screen(last));
  for (int i = 0; i < 60; ++i) f.gui.key(ImGuiKey_DownArrow);
  CHECK(on_screen(last));
}

TEST_CASE("hidden panels leave their room to the others, and Ctrl with a number brings them back") {
  Fixture f;
  const int everything = f.gui.vertices();
  Preferences hidden;
  hidden.hidden_panels = {"Memory", "Explore"};
  Fixture without(hidden);
  CHECK(without.gui.vertices() < everything);
  without.gui.ctrl_key('2');
  CHECK(without.shell->preferences().hidden_panels == std::set<std::string>{"Explore"});
  without.gui.ctrl_key('3');
  CHECK(without.shell->preferences().hidden_panels.empty());
  without.gui.ctrl_key('9');  // there is none: nothing happens
  without.gui.frame(2);
  CHECK(without.gui.vertices() > everything / 2);
}

TEST_CASE("a tab that is reached by its number is worked by keys at once") {
  Fixture f;
  ImGui::GetIO().ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;  // as in the window
  f.gui.frame(3);
  f.gui.ctrl_key('1');
  f.gui.ctrl_key('3');
  f.gui.frame(3);
  constexpr int any = ImGuiPopupFlags_AnyPopupId | ImGuiPopupFlags_AnyPopupLevel;
  CHECK(!ImGui::IsPopupOpen("", any));
  f.gui.key(ImGuiKey_DownArrow);
  f.gui.key(' ');
  CHECK(ImGui::IsPopupOpen("", any));  // the list of models
}

TEST_CASE("/ leads to the map's search from a slider, and types nothing in a field") {
  Fixture f;
  ImGui::GetIO().ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;  // as in the window
  f.gui.frame(3);
  f.gui.drag({1150, 100}, {1200, 100});
  for (float y = 60; y < 260; y += 12) f.gui.drag({1150, y}, {1200, y});  // the sliders of the right column
  REQUIRE(!ImGui::GetIO().WantTextInput);
  f.gui.key('/');
  f.gui.frame(2);
  REQUIRE(ImGui::GetIO().WantTextInput);
  f.gui.type("no such parameter");
  CHECK(on_screen("no such parameter"));
  CHECK(on_screen("0 of 0"));
  f.gui.key('/');
  f.gui.frame(2);
  CHECK(on_screen("no such parameter"));
}

TEST_CASE("Ctrl with - = [ ] moves the bars between panels, and not out of the window") {
  Fixture f;
  const float upper = f.shell->preferences().upper_share;
  const float right = f.shell->preferences().right_share;
  f.gui.ctrl_key('=');
  CHECK(f.shell->preferences().upper_share > upper);
  f.gui.ctrl_key('-');
  CHECK(f.shell->preferences().upper_share == doctest::Approx(upper));
  f.gui.ctrl_key('[');
  CHECK(f.shell->preferences().right_share > right);
  for (int i = 0; i < 60; ++i) f.gui.ctrl_key(']');
  CHECK(f.shell->preferences().right_share == doctest::Approx(0.12F));
  CHECK(f.gui.vertices() > 0);
}

TEST_CASE("sliders redraw the map at once") {
  Fixture f;
  const auto before = f.shell->document().layout;
  // The dp slider is the first of the right column: drag along it somewhere in the upper part.
  bool changed = false;
  for (float y = 60; y < 260 && !changed; y += 12) {
    f.gui.drag({1100, y}, {1300, y});
    changed = f.shell->document().layout != before && f.shell->document().layout->options.dp_size != 4;
  }
  CHECK(changed);
  CHECK(f.shell->document().info.ranks == f.shell->document().layout->options.dp_size);
}

TEST_CASE("the shell draws at any size") {
  for (const ImVec2 size : {ImVec2(200, 200), ImVec2(320, 1200), ImVec2(3840, 2160)}) {
    CAPTURE(size.x);
    Fixture f;
    ImGui::GetIO().DisplaySize = size;
    f.gui.frame(4);
    CHECK(f.gui.vertices() > 0);
  }
}

TEST_CASE("what is remembered is what was set, and nonsense is not believed") {
  Preferences p;
  p.dark = false;
  p.width = 1000;
  p.height = 700;
  p.right_share = 0.25F;
  p.upper_share = 0.5F;
  p.hidden_panels = {"Timeline", "Event log"};
  CHECK(parse_preferences(to_text(p)) == p);
  CHECK(parse_preferences("") == Preferences{});
  CHECK(parse_preferences("width = -3\nheight = many\nright_share = nan\nupper_share = 9\n= \nno line\n") ==
        Preferences{});
  CHECK(parse_preferences(std::string(1000, '=')) == Preferences{});

  const zero1::test::TemporaryFolder home;
  const std::string folder = home / "config/zero1_lab";
  CHECK(load_preferences(folder) == Preferences{});
  save_preferences(folder, p);
  CHECK(load_preferences(folder) == p);
  save_preferences("/proc/no/such/place", p);  // told, not thrown
  save_preferences("", p);
  CHECK(load_preferences("") == Preferences{});
}
